"""Networks on a cluster: its own scheduler starts the same processes that one would start by hand."""
