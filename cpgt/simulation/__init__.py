"""A whole network in one process, on simulated links, clocks and disks, from one seed."""
