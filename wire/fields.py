"""Checks that all forms of payloads share."""

from __future__ import annotations

import numpy as np

from cpgt.wire.arrays import Floats
from cpgt.wire.bits import Reader
from cpgt.wire.errors import ProtocolError, WireError


def reader_after_form(payload: bytes, form: int) -> Reader:
    """A reader of the fields after the first byte, which must be `form`."""
    reader = Reader(payload)
    if not payload or reader.byte() != form:
        raise ProtocolError("payload of another form than the others")
    return reader


def require_finite(values: Floats, error: type[WireError]) -> Floats:
    """The values. Raises WireError for own values, ProtocolError for received ones."""
    if not np.isfinite(values).all():
        raise error("payload with a value that is not finite")
    return values
