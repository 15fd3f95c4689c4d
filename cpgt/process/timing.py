"""How often processes poll, send a sign of life, and mention that they wait."""

from __future__ import annotations

POLL_MS = 100  # how long one wait for a message lasts; between two waits, signals and deadlines are checked
PULSE_SECONDS = 1.0  # between two signs of life, when there is nothing else to send
NOTICE_SECONDS = 3.0  # a wait is mentioned after this long: several pulses are missing by then
REPEAT_SECONDS = 10.0  # and mentioned again after this long
WINDOWS_GRANTED = 2  # windows of rounds granted at once, so that nobody idles while reports come in
