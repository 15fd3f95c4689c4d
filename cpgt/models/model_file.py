"""model.json: the coefficients of a run, what they mean, and what they cost.

It holds public facts and coefficients alone. With mechanisms `gradient` and `objective` the
coefficients are paid for, with `state` they are public, and without noise the file says NOT
PRIVATE. No figure about training data is in it, and no path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cpgt.models.coefficients import (
    APPLIES,
    AS_IT_IS,
    Coefficients,
    Link,
    coefficient_matrix,
    link_of,
    name_coefficients,
)
from cpgt.models.promise import BROKEN, Spent
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.process.files import read_bounded
from cpgt.tables.schema import Schema, parse_schema, schema_as_dict
from cpgt.wire.arrays import Floats
from cpgt.wire.messages import MAX_AGENTS

VERSION = 1
MAX_BYTES = 2**30  # of a model file
NAME = "model.json"


class ModelError(ValueError):
    """A model file that cannot be used, or not for this."""

    exit_code = BAD_INPUT


class Model(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of model.json. `load_model` checks that its parts fit together."""

    version: int
    vector: str  # which vector this is
    task: str | None  # of the table
    link: Link | None  # None: not a linear model of the table
    applies: str
    coefficients: Coefficients
    disagreement: float | None  # distance of all agents' x^c from their mean
    privacy: Spent
    not_private: list[str]
    agents: list[int]  # who took part
    rounds: int
    network: dict[str, Any]  # the public parameters of the run
    versions: dict[str, str]
    table_digest: str | None
    table: Schema | None

    @property
    def matrix(self) -> Floats:
        """A row for each class of a softmax, else one row; a column for each feature."""
        return coefficient_matrix(self.coefficients, self.link, self.table)


def make_model(
    x: Floats,
    *,
    vector: str,
    schema: Schema | None,
    disagreement: float | None,
    privacy: Spent,
    not_private: Sequence[str],
    rounds: int,
    network: Mapping[str, Any],
) -> Model:
    """`network` are the parameters of a plan: `PublicNetwork.parameters`."""
    link = link_of(network["objective"]["kind"], schema, len(x))
    if not_private:
        privacy = replace(privacy, promise=BROKEN)
    return Model(
        version=VERSION,
        vector=vector,
        task=schema.task if schema else None,
        link=link,
        applies=APPLIES[link] if link else AS_IT_IS,
        coefficients=name_coefficients(x, link, schema),
        disagreement=disagreement,
        privacy=privacy,
        not_private=list(not_private),
        agents=list(range(1, _number_of_agents(network) + 1)),
        rounds=rounds,
        network=dict(network),
        versions=_versions(),
        table_digest=schema.digest if schema else None,
        table=schema,
    )


def _number_of_agents(network: Mapping[str, Any]) -> int:
    number = network["network"]["agents"]
    if not isinstance(number, int) or not 1 <= number <= MAX_AGENTS:
        raise ValueError(f"network.agents is {number!r}")
    return number


def _versions() -> dict[str, str]:
    # once, at the end of a run: agents start without these modules
    import platform
    from importlib.metadata import version

    packages = {name: version(name) for name in ("cpgt", "numpy")}
    return {"python": platform.python_version(), **packages}


def write_model(model: Model, folder: Path, mode: int = 0o644) -> Path:
    """Write the whole file or nothing. Raises OSError."""
    path, partial = folder / NAME, folder / f".{NAME}.part"
    folder.mkdir(parents=True, exist_ok=True)
    plain = msgspec.to_builtins(model, str_keys=True)
    plain["table"] = schema_as_dict(model.table) if model.table else None
    text = json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return path


def describe_model(model: Model, path: Path) -> list[str]:
    """For its owner: where it is, which vector, and what it promises."""
    return [f"model: {path}", f"it is {model.vector}; it promises {model.privacy.promise}"]


def load_model(source: str | Path) -> Model:
    """A model from its file, or from the folder of a run."""
    path = Path(source)
    path = path / NAME if path.is_dir() else path
    try:
        plain = json.loads(read_bounded(path, MAX_BYTES))
    except UnicodeDecodeError:
        raise ModelError(f"{path}: cannot be read: it is not text") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    try:
        return _checked(plain)
    except ValueError as error:  # of msgspec, of the schema, or ours
        line = str(error).partition("\n")[0]
        raise ModelError(f"{path}: not a model that can be used: {line}") from None


def _checked(plain: Any) -> Model:
    version = plain.get("version") if isinstance(plain, dict) else None
    if version != VERSION:
        raise ValueError(f"its version is {version!r}, and this cpgt reads version {VERSION}")
    model = msgspec.convert(plain, Model)
    schema = model.table
    if schema:
        parse_schema(plain["table"], "table")  # checks more than the types
    if (schema.digest if schema else None) != model.table_digest:
        raise ValueError("table_digest is not the digest of its table")
    if (schema.task if schema else None) != model.task:
        raise ValueError(f"task {model.task!r} is not that of its table")
    coefficient_matrix(model.coefficients, model.link, schema)
    return model
