"""Running on other machines: keys, Slurm, Kubernetes."""
