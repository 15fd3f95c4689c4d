# Every target installs what it needs: a fresh clone requires Python 3.11+, make and the package
# index. With a C compiler, short rounds are faster.
PYTHON ?= python3
BIN := .venv/bin
TORCH ?= torch

.PHONY: demo test test-torch check docs fuzz bench bench-links clean

# running: the package with all its extras; ready: also the tools for tests and checks
.venv/running: pyproject.toml setup.py agent/_round.c
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[all]'
# where PYTHONDONTWRITEBYTECODE is set, each process would compile all our modules when it starts
	$(BIN)/python -m compileall -q agent coordinator cpgt topologies wire
	touch $@

.venv/ready: .venv/running
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: .venv/running
	$(BIN)/cpgt run paper --observe --seed 1
	$(BIN)/cpgt run hospitals --test cpgt/networks/hospitals/held-out.csv --baselines

# tests of parts run in parallel; networks of real processes need all cores
test: .venv/ready
	$(BIN)/pytest -n auto --ignore tests/system
	$(BIN)/pytest tests/system

# PyTorch is a large download, so its tests have an environment of their own; TORCH may name a version
test-torch: .venv-torch/ready
	OMP_NUM_THREADS=1 .venv-torch/bin/pytest tests/adapters/with_torch.py

.venv-torch/ready: pyproject.toml setup.py
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-torch/bin/pip install --quiet --disable-pip-version-check -e '.[torch]' pytest pytest-timeout hypothesis
	touch $@

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# coverage-guided fuzzing of every decoder that faces a socket or a file
RUNS ?= 10000000
.venv/fuzz: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	touch $@

fuzz: .venv/fuzz
	$(BIN)/python -m tests.fuzz.coverage $(RUNS)

# the reference of the network file, from its schema
docs: .venv/ready
	$(BIN)/python docs/reference.py > docs/network-file.md

# one thread for linear algebra, as in agents that share a machine
bench: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench

# hosts behind slow links, on this machine: needs root
bench-links: .venv/ready
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.links

clean:
	rm -rf .venv .venv-torch .fuzz build agent/*.so *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
