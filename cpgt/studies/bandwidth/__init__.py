"""`cpgt bandwidth`: the traffic of a network with several compressors and without compression."""
