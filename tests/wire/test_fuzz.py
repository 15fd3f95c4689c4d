"""Decoding is total: any bytes give finite vectors or a ProtocolError. `fuzz` runs longer."""

from __future__ import annotations

import numpy as np
import pytest

from cpgt.wire.errors import ProtocolError
from cpgt.wire.frames import build_frame, parse_frame
from cpgt.wire.payloads import decode, encode
from tests.wire.examples import FORMS, STYLES, message
from tests.wire.fuzz import damaged, fuzz

QUARTER = 25_000


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_damaged_payloads_are_decoded_or_refused(seed: int) -> None:
    outcome = fuzz(QUARTER, seed)
    assert outcome.cases >= QUARTER
    assert 0.05 < outcome.decoded / outcome.cases < 0.95  # both outcomes were seen, often


def test_a_damaged_payload_among_good_ones() -> None:
    rng = np.random.default_rng(6)
    outcomes = set()
    for form in FORMS:
        for style in STYLES:
            vectors = message(rng, form, style, 2, 20)
            good = encode(vectors)
            for bad in damaged(rng, good, 7):
                try:
                    values = decode([good, bad, good], 2, 20).dense()
                except ProtocolError:
                    outcomes.add("refused")
                    continue
                outcomes.add("decoded")
                assert values.shape == (3, 2, 20)
                assert np.isfinite(values).all()
                assert np.array_equal(values[0], vectors.dense())
                assert np.array_equal(values[2], vectors.dense())
    assert outcomes == {"refused", "decoded"}


def test_random_data_frames_are_read_or_refused() -> None:
    rng = np.random.default_rng(8)
    frames = [rng.bytes(size) for size in rng.integers(0, 30, 10_000)]
    for frame in (
        build_frame(5, 300, b"\0" * 9),
        build_frame(300, 2**32, b"\1"),
        build_frame(1, 1, b""),
    ):
        frames += damaged(rng, frame, 3000)
    read = 0
    for frame in frames:
        try:
            sender, round_, payload = parse_frame(frame)
        except ProtocolError:
            continue
        read += 1
        assert (type(sender), type(round_), type(payload)) == (int, int, bytes)
        assert frame.endswith(payload)
    assert 0 < read < len(frames)
