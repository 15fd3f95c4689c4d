"""Runs on other machines: keys, Slurm, Kubernetes."""
