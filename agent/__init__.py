"""One agent: its private objective, its algorithm, and the process that plays rounds with its neighbours."""
