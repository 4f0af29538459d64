# `make demo` shows what it does, `make test` checks it; both build .venv when needed.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test faults notebooks lint clean

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/python train.py
	$(BIN)/python explain.py
	@echo "Plots: runs/digits/surrogate/plots/"

# Each test runs on one thread, so two processes; a file's tests share what they have trained.
test: install
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# Wrong patches of the package, one after the other, each of which has to turn tests red.
faults: install
	$(BIN)/python -m pytest --numprocesses 2 -m "slow or not slow" tests/faults

notebooks: install
	$(BIN)/python -m pytest --numprocesses 2 -m notebook

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv runs
