"""One agent: private objective, algorithm, the rules of a run (session) and the process."""
