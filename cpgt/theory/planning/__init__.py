"""`cpgt plan`: what to expect of a network before anything runs."""
