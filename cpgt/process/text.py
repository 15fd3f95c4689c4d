"""Text of others, as a terminal, a log or a file may show it."""

from __future__ import annotations

LONGEST = 1000  # characters


def printable(text: str, longest: int = LONGEST) -> str:
    """One line of bounded length. What cannot be printed becomes a question mark: control
    characters and line breaks, and marks that reverse or hide text."""
    kept = text[:longest]
    if not kept.isprintable():
        kept = "".join(character if character.isprintable() else "?" for character in kept)
    return kept if len(text) <= longest else f"{kept} ..."
