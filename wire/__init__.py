"""Bytes and sockets. Knows no algorithm: vectors in, bytes out, and the same vectors at the other end."""
