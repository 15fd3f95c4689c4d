"""What can be wrong with a schema or with a table as a whole. Both are the owner's to correct."""

from __future__ import annotations

from cpgt.process.exit_codes import BAD_INPUT


class SchemaError(ValueError):
    """A schema that cannot be used; one line for each mistake."""

    exit_code = BAD_INPUT


class TableError(ValueError):
    """A table that cannot be read, or lacks a column. The message may quote the owner's paths."""

    exit_code = BAD_INPUT
