"""Did you mean: the known word that is closest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of an error's line: "; did you mean 'ring'?", or nothing if no word is close."""
    from difflib import get_close_matches  # for mistakes alone

    close = get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
