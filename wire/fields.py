"""What all payloads have in common: a form, and values that are finite."""

from __future__ import annotations

import numpy as np

from cpgt.wire.arrays import Floats
from cpgt.wire.bits import Reader
from cpgt.wire.errors import ProtocolError, WireError


def after_form(payload: bytes, form: int) -> Reader:
    reader = Reader(payload)
    if not payload or reader.byte() != form:
        raise ProtocolError("payload of another form than the others")
    return reader


def received(values: Floats) -> Floats:
    """The values, if they are finite."""
    if not np.isfinite(values).all():
        raise ProtocolError("payload with a value that is not finite")
    return values


def sendable(values: Floats) -> Floats:
    """The values, if they are finite."""
    if not np.isfinite(values).all():
        raise WireError("a vector with a value that is not finite cannot be sent")
    return values
