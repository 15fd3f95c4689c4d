"""`cpgt audit`: attacks of an eavesdropper, to test whether the claimed epsilon holds."""
