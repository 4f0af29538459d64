# `make demo` shows what it does, `make test` checks it; both build .venv when needed.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test faults hostile notebooks docs lint dist lowest clean

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# A third of the usual epochs: more make little difference to digits.
demo: install
	$(BIN)/python train.py value_function.max_epochs=10
	$(BIN)/python explain.py
	@echo "Plots: runs/digits/surrogate/plots/"

# Each test runs on one thread, so two processes; a file's tests share what they have trained.
test: install
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# Faults in the package, one after the other, each of which has to turn tests red.
faults: install
	$(BIN)/python -m tests.faults run

# What the package should not be given, and runs that are killed, stopped, doubled and starved.
hostile: install
	HOSTILE_RESULTS=tests/hostile/interruptions.json \
		$(BIN)/python -m pytest -m "slow or not slow" tests/hostile
	$(BIN)/python -m tests.hostile.page

notebooks: install
	$(BIN)/python -m pytest --numprocesses 2 -m notebook

# The site, in build/site: every example is run, and a warning is an error.
docs: install
	rm -rf build/site docs/api/generated
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -b html . build/site
	$(BIN)/python docs/check_site.py build/site

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The wheel and the archive of sources, in dist/.
dist: install
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# The tests with the lowest versions that pyproject.toml allows, in an environment of their own.
# Old packages warn of newer ones that they need, so that warnings are no errors there.
lowest: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python \
		--resolution lowest-direct --editable '.[dev]'
	.venv-lowest/bin/python -m pytest --numprocesses 2 --dist loadfile -W default

clean:
	rm -rf .venv .venv-lowest dist runs build docs/gallery docs/api/generated
