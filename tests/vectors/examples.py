"""One example or more of every control message."""

from __future__ import annotations

import struct
from typing import Any

from cpgt.wire.messages import (
    Control,
    Failed,
    Finished,
    Grant,
    Hello,
    Moved,
    Notice,
    Plan,
    Ready,
    Refused,
    Report,
    Spent,
    Status,
    Stop,
    Tally,
    Waiting,
)

KERNEL = [1, 5000, 92, 0, 210, 205, 10920]
PARAMETERS = {
    "network": {"name": "study", "agents": 2, "graph": {"kind": "path", "agents": 2}},
    "algorithm": {"kind": "cpgt", "alpha": 0.1, "gamma": 0.6},
    "compressor": {"kind": "quantize", "bits": 2},
    "noise": {"s_x": 1.0, "s_y": 2.0, "q": 0.98},
    "privacy": {"mechanism": "state", "adjacency": "function", "sensitivity": 0.5},
    "objective": {"kind": "least-squares", "scale": 0.05},
    "start": "zeros",
    "table": "0123456789abcdef" * 4,
}
MESSAGES: list[Control] = [
    Hello(3, "tcp://192.0.2.3:5556"),
    Hello(3, "tcp://192.0.2.3:5557", "5f3a"),
    Ready(10, []),
    Ready(1, ["seeded", "observed"]),
    Spent(200, [0.25, 0.5], 2.0, None),
    Spent(0, [], 2.0, 400),
    Status(1234, [2, 5]),
    Report(0, [16, 17], [18, 19], {2: 37, 5: 36}, [18], 0.125, {2: KERNEL}, {5: KERNEL}),
    Finished(400, struct.pack("<2d", 1.5, -2.0)),
    Failed("its data cannot be used; its own log says why", 2, 17),
    Waiting([1, 4]),
    Notice("the run will end after 400 rounds"),
    Refused("agent 3 is here already"),
    Plan(1, {2: "tcp://[2001:db8::2]:5556"}, {1: 0.5, 2: 0.5}, 400, 200, 30.0, PARAMETERS),
    Plan(1, {2: "tcp://h:2"}, {1: 0.5, 2: 0.5}, 400, 200, 30.0, PARAMETERS, "5f3a", 200),
    Moved(2, "tcp://192.0.2.2:5560"),
    Grant(400, False),
    Grant(400, True),
    Tally(),
    Stop("", 0.25),
    Stop("", None),
    Stop("agent 2 has been silent for 30 s"),
]

SCHEMAS: list[dict[str, Any]] = [
    {
        "version": 1,
        "feature_bound": 2,
        "target": {"column": "died", "labels": {"yes": 1, "no": 0, "nein": 0}},
        "weight": {"column": "w", "bound": 10},
        "columns": [
            {"kind": "number", "name": "Größe", "bounds": [0.5, 2.5], "missing": 2, "unit": "m"},
            {"kind": "category", "name": "sex", "categories": ["male", "female"]},
        ],
    },
    {
        "version": 1,
        "intercept": False,
        "feature_bound": 1e-5,
        "target": {"column": "visits", "counts": 20},
        "columns": [{"kind": "number", "name": "age", "bounds": [0, 1e16]}],
    },
]
