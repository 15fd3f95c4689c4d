"""Writes scikit-learn's digits for six parties: parts/1.npz .. parts/6.npz, and test.npz."""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

PARTIES, TRAINING = 6, 1437


def main(seed=0):
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    parts = dict(enumerate(np.array_split(order[:TRAINING], PARTIES), start=1))
    here = Path(__file__).parent
    (here / "parts").mkdir(exist_ok=True)
    for name, rows in {**parts, "test": order[TRAINING:]}.items():
        # pixels are 0 .. 16 by definition; nothing is computed from the table
        np.savez(here / "parts" / f"{name}.npz", A=pixels[rows] / 16, labels=labels[rows])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
