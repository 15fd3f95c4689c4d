"""`cpgt audit`: attack the network as an eavesdropper would, and see whether epsilon holds."""
