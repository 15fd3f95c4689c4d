"""Running a network: as processes, inside one process, or many trials at once."""
