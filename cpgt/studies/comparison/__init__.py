"""`cpgt compare`: several algorithms on the same problem. Every state is observed: NOT PRIVATE."""
