"""The digest of a schema (docs/protocol.md, "The plan's parameters")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

WHOLE = ("version", "counts", "labels")


def digest(schema: Mapping[str, Any]) -> str:
    keys = {"intercept": True, **_with_floats(schema)}
    text = json.dumps(keys, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v if k in WHOLE else _with_floats(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_floats(entry) for entry in value]
    return float(value) if type(value) is int else value
