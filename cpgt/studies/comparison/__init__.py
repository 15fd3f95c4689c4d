"""Several algorithms on the same problem, as processes, on equal terms. All is observed: NOT PRIVATE."""
