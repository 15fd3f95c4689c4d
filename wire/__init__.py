"""Bytes and sockets: vectors in, bytes out, and the same vectors at the other end."""
