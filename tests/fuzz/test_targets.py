"""Decoders face anything: inputs that were once a bug, good ones, and damaged ones from a seed.

`make fuzz` searches for new ones, guided by coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.commands.damage import damaged
from tests.fuzz.targets import TARGETS, seeds

CRASHES = sorted((Path(__file__).parent / "crashes").iterdir())
INPUTS = 1000


@pytest.mark.parametrize("path", CRASHES, ids=lambda path: path.name)
def test_what_was_once_a_bug(path: Path) -> None:
    TARGETS[path.name.partition("-")[0]](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_good_and_damaged_inputs(name: str) -> None:
    rng, good = np.random.default_rng(13), list(seeds(name))
    assert good
    for content in good:
        TARGETS[name](content)
    for i in range(INPUTS):
        content = damaged(rng, good[i % len(good)])
        try:
            TARGETS[name](content)
        except BaseException as error:
            error.add_note(f"{name}: {content.hex()}")
            raise
