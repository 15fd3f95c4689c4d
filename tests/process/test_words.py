"""Notices of waits that are read back, and words that are close to a mistake."""

from __future__ import annotations

import pytest

from cpgt.process.suggestions import did_you_mean
from cpgt.process.wait_notices import WaitNotices, late_agents


def test_the_agents_of_a_notice_are_read_back() -> None:
    notice = WaitNotices().look({3: 0.0, 5: 0.0, 12: 33.0}, ", round 120", 40.0)
    assert notice == "waiting for agents 3, 5 (for 40 s), 12 (for 7 s), round 120"
    assert late_agents(notice) == [3, 5, 12]


def test_a_wait_for_agents_to_join_is_not_late() -> None:
    notice = WaitNotices().look({3: 0.0}, "", 40.0)
    assert notice and late_agents(notice) == []


@pytest.mark.parametrize("text", ["going on, round 3", "agent 3 is here", "", "waiting, round 3"])
def test_other_texts_name_nobody(text: str) -> None:
    assert late_agents(text) == []


def test_did_you_mean() -> None:
    assert did_you_mean("rign", ["ring", "path"]) == "; did you mean 'ring'?"
    assert did_you_mean("xyz", ["ring", "path"]) == ""
    assert did_you_mean(7, ["ring"]) == ""
