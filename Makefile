# Every target sets up what it needs from a bare machine with Python 3.11, and is quiet when nothing is to be done.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: setup run test lint bench lock clean

setup: $(VENV)/.ready
	@:

# The stamp is written last: an interrupted set-up is done again.
$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tailrace needs Python 3.11 or newer: make PYTHON=python3.11 setup" >&2; exit 1; }
	@echo "setting up $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes --no-deps -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

run: setup
	@$(BIN)/tailrace chat

test: lint
	@$(BIN)/python -m pytest

lint: setup
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/lint-imports --no-logo > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@$(BIN)/mypy --no-error-summary

# The libraries measured beside ours are heavy: they live apart and only `make bench` installs them.
$(VENV)/.bench-ready: $(VENV)/.ready requirements-bench.lock
	@echo "installing what the bench compares with" >&2
	@$(PIP) install --require-hashes --no-deps -r requirements-bench.lock
	@touch $@

bench: $(VENV)/.bench-ready
	@$(BIN)/python -m bench

# Writes the locks anew from pyproject.toml; versions and hashes only, no addresses.
lock: setup
	@$(PIP) install uv
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --group dev pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --group bench -c requirements.lock -o requirements-bench.lock

clean:
	@rm -rf $(VENV)
