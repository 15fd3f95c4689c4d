"""How often processes poll and send a sign of life, and when a wait is reported or given up."""

from __future__ import annotations

# One wait for a message lasts this long. Between two waits, signals and deadlines are checked.
POLL_MS = 100
# While neighbours connect: their subscriptions come through a socket that no wait listens to.
CONNECT_POLL_MS = 5
PULSE_SECONDS = 1.0  # between two signs of life, when there is nothing else to send
NOTICE_SECONDS = 3.0  # a wait is reported after this long: several pulses are missing by then
REPEAT_SECONDS = 10.0  # and reported again after this long
# An agent waits this much longer than the network's patience. The coordinator, which has a
# connection to every agent, then names the silent one first.
NEIGHBOUR_GRACE_SECONDS = 3.0
# Windows of rounds that are granted at once, so that no agent idles while reports travel.
WINDOWS_GRANTED = 2
