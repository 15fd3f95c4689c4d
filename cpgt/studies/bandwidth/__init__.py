"""`cpgt bandwidth`: a network, others with its compressor exchanged, and itself uncompressed, on the wire."""
