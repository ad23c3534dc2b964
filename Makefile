# rocketpy: every target sets up what it needs in .venv; nothing here uses sudo or the system's own packages.
PYTHON ?= python3
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE  # with it every program of a test run would compile all that it imports
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NEEDS := rocketpy needs make and Python 3.11 or newer with venv (on Debian: apt-get install make python3 python3-venv)

.PHONY: broker test test-changed style types properties bench notebooks java upstream wheel clean

broker: $(VENV)/.core  ## a nameserver and a broker in one process, on loopback
	@$(BIN)/python -m rocketpy.broker

test: $(VENV)/.full  ## the test run for people, in minutes; ROCKETPY_TIER=ci runs all of it
	@$(BIN)/python -m tests.stages

BASE ?= HEAD
test-changed: $(VENV)/.full  ## the tests of what has changed since the commit BASE, in seconds
	@$(BIN)/python -m tests.changed $(BASE)

style: $(VENV)/.full
	@$(BIN)/python -m tests.stages style floors

types: $(VENV)/.full
	@$(BIN)/python -m tests.stages types

properties: $(VENV)/.full  ## Hypothesis profile by ROCKETPY_TIER: dev, ci or deep
	@$(BIN)/python -m tests.stages properties

notebooks: $(VENV)/.full  ## run the notebooks and write them with their outputs
	@$(BIN)/python -m tests.notebooks

java: $(VENV)/.full  ## the tests that need a JDK
	@$(BIN)/python -m tests.stages java

ROUNDS ?= 1
upstream: $(VENV)/.full  ## RocketMQ's own integration tests against two rocketpy brokers, ROUNDS times
	@ROCKETPY_UPSTREAM_ROUNDS=$(ROUNDS) $(BIN)/python -m tests.stages upstream

wheel: $(VENV)/.full  ## wheels for each Python that is here, compiled, and one of plain Python: built into dist, installed, tried
	@$(BIN)/python -m tests.wheels

bench: $(VENV)/.full  ## the Java broker and ours, side by side, in one run
	@$(BIN)/python -m bench $(BENCH)

$(VENV)/.made:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo '$(NEEDS)' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	@echo 'Installing rocketpy into $(VENV) ...'
	@$(PIP) install -c constraints.txt -e .
	@$(BIN)/python -m compileall -q rocketpy  # as pip does for a wheel: else the first start does
	@$(BIN)/rocketpy --version
	@touch $@

# Nothing is compiled to C here: the tests run the sources, or compile all modules themselves. Bytecode is made on all cores,
# without that of the tests of other packages: Spark gives a Python worker ten seconds to import what it needs.
# trio-typing brings old stubs that shadow Trio's own types (and crash its mypy plugin): they are moved aside.
$(VENV)/.full: $(VENV)/.made pyproject.toml constraints.txt
	@echo 'Installing rocketpy and what its tests need into $(VENV) (PySpark is large) ...'
	@ROCKETPY_PURE=1 $(PIP) install --no-compile -c constraints.txt -e '.[dev,spark]'
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null || true
	@$(BIN)/python -m tests.hide_trio_stubs
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
