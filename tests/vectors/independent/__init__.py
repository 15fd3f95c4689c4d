"""A second implementation of what others see, written from docs/protocol.md and docs/codec.md.

It imports nothing of the project and no numpy, so that an agreement is not a shared mistake. Of the
libraries that the pages name it uses msgpack alone.
"""
