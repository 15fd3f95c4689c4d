"""What all our processes share: exit codes, timing, signals, wait notices. Imports no other room."""
