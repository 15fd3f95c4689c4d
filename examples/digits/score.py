"""Prints how many test digits the model of a run gets right: score.py RUN ..."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from mlp import initial, scores


def accuracy(run):
    summary = json.loads((Path(run) / "summary.json").read_text())
    start, unflatten = ravel_pytree(initial(summary["network"]["objective"]["hidden"]))
    parameters = unflatten(start + np.float32(summary["residual"]["public_result"]))
    with np.load(Path(__file__).parent / "parts" / "test.npz") as test:
        found = jax.vmap(lambda pixels: scores(parameters, pixels))(test["A"]).argmax(axis=1)
        return float((found == test["labels"]).mean())


if __name__ == "__main__":
    for run in sys.argv[1:]:
        print(f"{run}: {accuracy(run):.3f} of the test digits are right")
