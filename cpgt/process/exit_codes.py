"""Exit codes of all commands. The coordinator exits with the code of the agent that failed."""

from __future__ import annotations

FAILED = 1  # an unexpected error: a bug
BAD_INPUT = 2  # a file, an option or data that cannot be used
PEER_FAILED = 3  # another process is silent, unreachable or breaks the protocol
DIVERGED = 4  # the state is no longer finite
OUT_OF_BUDGET = 5  # another round would spend more privacy than allowed
INTERRUPTED = 130  # SIGINT (Ctrl-C) or SIGTERM; 128 + SIGINT, as shells report it
