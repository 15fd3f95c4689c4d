"""The accuracy of the shipped network `hospitals` over many draws of the noise.

    python -m bench.hospital_runs [60]

Runs inside this process, one for each seed, on the held-out records.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import load_network
from cpgt.runs.in_process import run
from cpgt.tables.encode import encode_table


def main(seeds: int) -> None:
    network = load_network("hospitals")
    assert network.table_schema and network.data
    test = encode_table(network.table_schema, Path(network.data).with_name("held-out.csv"))
    assert test.target is not None
    objectives, found = build_objectives(network, {}), []
    for seed in range(seeds):
        model = run(network, objectives, seed=seed, history=False).references.mean(axis=0)
        found.append(np.mean((test.features @ model > 0) == (test.target > 0)))
    print(
        f"accuracy of {seeds} runs: mean {np.mean(found):.3f}, deviation {np.std(found):.3f}, "
        f"from {np.min(found):.3f} to {np.max(found):.3f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
