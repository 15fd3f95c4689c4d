"""Shared by all processes: exit codes, timing, signals, wait notices. Imports no other room."""
