"""Journals: what is kept is found again, what is damaged is noticed, and restored agents go on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt.agent.algorithms.registry import ALGORITHMS, build_algorithm
from cpgt.agent.checkpoint import decode, encode
from cpgt.agent.core import ArrayCore
from cpgt.agent.errors import FolderError, InputError
from cpgt.agent.journal import (
    ROOM,
    Header,
    Journal,
    as_record,
    encode_round,
    opening,
    parse,
    read_records,
    unfinished,
)
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Player
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from tests.reference.kinds import ALGORITHMS as EXAMPLES

HEADER = Header(1, 5, 3, "tcp://host:1", b"plan", "data", "boot", "")
ROUNDS = [encode_round(None, b"own 0"), encode_round([b"a", b"bc"], b"own 1")]
STORED = opening(HEADER, b"checkpoint") + b"".join(ROUNDS)


# --- the format -----------------------------------------------------------------------------------


def test_what_is_kept_is_found_again() -> None:
    kept, end = parse(STORED + bytes(100))
    assert kept == (HEADER, b"checkpoint", [(None, b"own 0"), ([b"a", b"bc"], b"own 1")])
    assert end == len(STORED)


@pytest.mark.parametrize("written", range(len(ROUNDS[-1])))
def test_a_last_record_that_was_cut_off_is_dropped(written: int) -> None:
    whole = len(STORED) - len(ROUNDS[-1])
    kept, end = parse(STORED[: whole + written] + bytes(100))
    assert (len(kept.rounds), end) == (1, whole)


@given(st.integers(0, len(STORED) - len(ROUNDS[-1]) - 1), st.integers(1, 255))
def test_damage_elsewhere_is_noticed(position: int, change: int) -> None:
    damaged = bytearray(STORED + bytes(100))
    damaged[position] ^= change
    with pytest.raises(ValueError, match=r"damaged|not enough values"):
        parse(bytes(damaged))


@given(st.lists(st.binary(min_size=1), max_size=5))
def test_records_of_any_bytes(bodies: list[bytes]) -> None:
    stored = b"".join(map(as_record, bodies))
    assert read_records(stored) == (bodies, len(stored))


# --- the file -------------------------------------------------------------------------------------


def test_a_file_is_taken_over_and_continued(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    assert first.open() is None
    first.begin(HEADER, b"checkpoint")
    first.append(ROUNDS[0])
    first.close()  # without a trace, as a process that was killed
    path = tmp_path / "journal"
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("r+b") as file:  # a record that was cut off
        file.seek(len(STORED) - len(ROUNDS[1]))
        file.write(ROUNDS[1][:-1])
    second = Journal(tmp_path)
    kept = second.open()
    assert kept and kept.rounds == [(None, b"own 0")]
    second.append(encode_round(None, b"x"))
    second.close()
    third = Journal(tmp_path)
    kept = third.open()
    assert kept and kept.rounds == [(None, b"own 0"), (None, b"x")]
    third.close()


def test_a_file_grows_and_a_checkpoint_makes_it_small_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(HEADER, b"checkpoint")
    record = encode_round([bytes(range(256)) * 100], None)
    number = 2 * ROOM // len(record)
    for _ in range(number):
        journal.append(record)
    path = tmp_path / "journal"
    kept, _ = parse(path.read_bytes())
    assert len(kept.rounds) == number
    journal.begin(HEADER, b"another")
    assert path.stat().st_size < ROOM + 1000
    journal.close()
    kept, _ = parse(path.read_bytes())
    assert kept == (HEADER, b"another", [])
    assert [each.name for each in tmp_path.iterdir()] == ["journal"]


def test_a_journal_belongs_to_one_living_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(HEADER, b"checkpoint")
    with pytest.raises(InputError, match="belongs to an agent that is running"):
        Journal(tmp_path).open()
    assert unfinished([tmp_path], 3, "tcp://host:1") is None
    journal.close()
    assert unfinished([tmp_path], 3, "tcp://host:1") == tmp_path
    assert unfinished([tmp_path], 4, "tcp://host:1") is None
    assert unfinished([tmp_path], 3, "tcp://host:2") is None


@pytest.mark.parametrize("content", [b"", b"rubbish that is longer than a head", STORED[:20]])
def test_a_file_that_is_no_journal(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(FolderError, match="cannot be used"):
        Journal(tmp_path).open()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="cannot write"):
        Journal(tmp_path / "file").begin(HEADER, b"")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        journal = Journal(tmp_path)
        journal.open()
        journal.begin(HEADER, b"checkpoint")
        journal.begin(HEADER, b"checkpoint")
        journal.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# --- checkpoints ----------------------------------------------------------------------------------


def make_players(parameters: dict[str, Any]) -> list[Player]:
    """Three agents in a row."""
    algorithm = build_algorithm(parameters, None)
    weights = {1: {1: 0.6, 2: 0.4}, 2: {1: 0.4, 2: 0.2, 3: 0.4}, 3: {2: 0.4, 3: 0.6}}
    objectives = [LeastSquares(np.eye(3), np.full(3, float(k)), 0.05) for k in weights]
    return [
        Player(k, row, algorithm, f, np.ones(3), Randomness(seeded_secret(1, k)))
        for (k, row), f in zip(weights.items(), objectives, strict=True)
    ]


def play(players: list[Player], rounds: int) -> None:
    for _ in range(rounds):
        frames = {player.agent: player.send() for player in players}
        for player in players:
            for peer in player.waiting_for:
                player.accept(frames[peer])
            player.step()


def parameters_of(kind: str) -> dict[str, Any]:
    options = EXAMPLES[kind][0]
    takes = ALGORITHMS[kind]
    scale = 1.0 if takes.adds_noise else 0.0
    quantize = {"kind": "quantize", "bits": 2}
    return {
        "algorithm": {"kind": kind, "alpha": 0.1, "gamma": 1.0, **options},
        "noise": {"s_x": scale, "s_y": scale if takes.make.channels > 1 else 0.0, "q": 0.9},
        "compressor": quantize if takes.takes_compressor else {"kind": "identity"},
    }


@pytest.mark.parametrize("core", [ArrayCore, None], ids=["numpy", "fastest"])
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_a_restored_agent_sends_the_same_bytes(
    kind: str, core: type[ArrayCore] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if core:
        monkeypatch.setattr("cpgt.agent.participant.make_core", core)
    players, others = (make_players(parameters_of(kind)) for _ in range(2))
    play(players, 5)
    for player, other in zip(players, others, strict=True):
        other.restore(decode(encode(player.checkpoint([], 0))))
        assert other.send_again() == player.send_again()
        other.meter.resent, player.meter.resent = [], []
        player.meter = player.meter.next_window()
    play(players, 5)
    play(others, 5)
    for player, other in zip(players, others, strict=True):
        assert other.core.values.tobytes() == player.core.values.tobytes()
        assert other.core.reference.tobytes() == player.core.reference.tobytes()
        assert (other.meter, other.change) == (player.meter, player.change)


def test_a_round_that_comes_out_differently_is_not_sent() -> None:
    (player, *_) = make_players(parameters_of("cpgt"))
    with pytest.raises(InputError, match="round 0 comes out differently"):
        player.replay(None, b"another payload")
