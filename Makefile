# `make demo` shows what it does, `make test` checks it; each installs into .venv what it needs.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test test-slow faults hostile notebooks docs lint dist lowest clean

# Everything for development.
install: .venv/dev

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The package alone.
.venv/package: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# The package with an extra: .venv/test, .venv/docs and so on.
.venv/%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

# A third of the usual epochs: more make little difference to digits.
demo: .venv/package
	$(BIN)/python train.py value_function.max_epochs=10
	$(BIN)/python explain.py
	@echo "Plots: runs/digits/surrogate/plots/"

# Each test runs on one thread, so two processes; a file's tests share what they have trained.
test: .venv/test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# Tests that take longer than a second or two.
test-slow: .venv/test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m slow

# Faults in the package, one after the other, each of which has to turn tests red.
faults: .venv/test
	$(BIN)/python -m tests.faults run

# What the package should not be given, files that would run code, and 20 runs that are killed.
hostile: .venv/test
	$(BIN)/python -m pytest -m "slow or not slow" tests/hostile

notebooks: .venv/notebooks
	$(BIN)/python -m pytest --numprocesses 2 -m notebook tests/test_notebooks.py

# The site, in build/site: every example of the pages and the gallery is run, and a warning is an error.
docs: .venv/docs
	$(BIN)/python -m pytest --numprocesses 2 -m notebook tests/test_readme.py
	rm -rf build/site docs/api/generated
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -b html . build/site
	$(BIN)/python docs/check_site.py build/site

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The wheel and the archive of sources, in dist/.
dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# The tests with the lowest versions that pyproject.toml allows, in an environment of their own.
# Old packages warn of newer ones that they need, so that warnings are no errors there.
lowest: .venv/bin/python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python \
		--resolution lowest-direct --editable '.[test]'
	.venv-lowest/bin/python -m pytest --numprocesses 2 --dist loadfile -W default

clean:
	rm -rf .venv .venv-lowest dist runs build docs/gallery docs/api/generated
