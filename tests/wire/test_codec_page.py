"""The worked examples of docs/codec.md are what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.levels import decode_levels, encode_levels
from cpgt.wire.packing import MAX_BITS
from cpgt.wire.payloads import FORMS, decode, encode
from cpgt.wire.vectors import Quantized, Sparse, Vectors

PAGE = Path(__file__).parents[2] / "docs" / "codec.md"
LINE = re.compile(
    r"^((?:[0-9a-f]{2} )+) *\S"
)  # bytes, each with a space after it, and what they mean


def examples() -> dict[str, bytes]:
    blocks = re.findall(r"```bytes (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return {name: bytes.fromhex("".join(map(hex_of, text.splitlines()))) for name, text in blocks}


def hex_of(line: str) -> str:
    found = LINE.match(line + " .")
    assert found, f"a line without bytes: {line!r}"
    return found[1]


MESSAGES: dict[str, Vectors] = {
    "quantized": Quantized(
        2,
        np.array([[0.5], [0.25]], np.float32),
        np.array([[2.0, -1, 0, 0, 1, 0, 0, -2, 0, 1], [0, 1, -1, 0, 0, 0, 2, 0, 0, -1]]),
    ),
    "top-2": Sparse(10, np.array([[3, 9], [0, 1]]), np.array([[1.0, -2.0], [0.5, 3.0]])),
}
SECTIONS = {
    "section": np.resize([0.0, 0, 0, 0, 0, 1, 0, -1], 128),
    "signs": np.array([1.0, *[0.0] * 6, -1.0, *[0.0] * 92]),
}


def test_every_example_is_checked() -> None:
    assert set(examples()) == {*MESSAGES, *SECTIONS}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    vectors, frame = MESSAGES[name], examples()[name]
    assert build_frame(3, 300, encode(vectors)).hex(" ") == frame.hex(" ")
    sender, round_, payload = parse_frame(frame)
    assert (sender, round_) == (3, 300)
    assert np.array_equal(decode([payload], 2, 10).dense()[0], vectors.dense())


@pytest.mark.parametrize("name", SECTIONS)
def test_sections(name: str) -> None:
    levels, section = SECTIONS[name], examples()[name]
    assert encode_levels(levels).hex(" ") == section.hex(" ")
    found = decode_levels(section, len(levels), 2)
    assert np.array_equal(
        found.levels, levels if found.positions is None else levels[found.positions]
    )


@pytest.mark.parametrize(("name", "size"), [("quantized", 20), ("top-2", 40)])
def test_the_sizes_the_page_names(name: str, size: int) -> None:
    assert len(examples()[name]) == size
    assert f"In all {size} B" in PAGE.read_text(encoding="utf-8")


def test_the_table_of_forms_is_the_one_of_the_code() -> None:
    def first_bytes(numbers: range) -> str:
        return f"{numbers[0]} + b" if len(numbers) == MAX_BITS + 1 else ", ".join(map(str, numbers))

    table = PAGE.read_text(encoding="utf-8").split("| form ")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert rows == [[form.name, first_bytes(form.first_bytes)] for form in FORMS]
