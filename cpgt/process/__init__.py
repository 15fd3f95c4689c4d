"""What every process of ours has in common: exit codes, timing, signals. Imports nothing of ours."""
