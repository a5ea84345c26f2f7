# Every target sets up .venv by itself; all it needs is make and Python 3.11 or newer.
#   make PYTHON=python3.12 install     another Python
#   make test ARGS="-k chain -x"       arguments for pytest or for a benchmark

PYTHON ?= python3
ARGS ?=
# Tests run in so many processes; WORKERS=0 runs them in one, for a debugger.
WORKERS ?= auto
VENV := .venv
BIN := $(VENV)/bin
# Where somebody watches, pip says what it is doing.
PIP := $(BIN)/python -m pip --disable-pip-version-check $(if $(MAKE_TERMOUT),,--quiet)
# What the package's metadata is made of: a change here installs it anew.
METADATA := pyproject.toml src/trellis/_version.py
PACKAGE := $(VENV)/.package-installed
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed
# A benchmark is benchmarks/NAME.py; what they share starts with an underscore.
BENCHMARKS := $(filter-out _%,$(patsubst benchmarks/%.py,%,$(sort $(wildcard benchmarks/*.py))))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo dist docs gallery kernels test test-neural lint format bench clean distclean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
		awk -F':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'
	@echo "  make bench-<name>       one benchmark: $(or $(BENCHMARKS),none yet)"

install: $(PACKAGE)  ## .venv with the package and the command .venv/bin/trellis
	@echo "installed: $(BIN)/trellis"

demo: $(PACKAGE)  ## a short tour of what works
	$(BIN)/python examples/demo.py

test: $(DEV)  ## all tests, the examples in docstrings and those of the README
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-neural: $(DEV)  ## the tests of trellis.neural, with PyTorch, which `make test` skips without it
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install --editable '.[torch,transformers]'
	$(BIN)/python -m pytest -n $(WORKERS) tests/neural src/trellis/neural tests/docs/test_pages.py \
		tests/benchmarks/test_small_runs.py -k neural $(ARGS)

lint: $(DEV)  ## ruff, mypy in strict mode, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV)  ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

gallery: $(PACKAGE)  ## draw the pictures of docs/gallery
	@for drawing in examples/plot_*.py; do echo "$$drawing"; $(BIN)/python $$drawing || exit 1; done

docs: $(DOCS)  ## the documentation as a site that opens from disk: build/site/index.html
	$(BIN)/python -m sphinx -a -E -W --keep-going -q -d build/doctrees docs build/site
	@echo "open build/site/index.html"

dist: $(DEV)  ## a wheel and an sdist under dist/, each tried in an environment of its own
	tools/smoke_test.sh $(abspath $(BIN)/python)

kernels: $(DEV)  ## record which kernels each use needs, after kernels or their arguments changed
	$(BIN)/python tools/record_kernels.py $(ARGS)

bench: $(DEV) $(addprefix bench-,$(BENCHMARKS))  ## all benchmarks, one after the other
	@echo "benchmarks run: $(or $(BENCHMARKS),none yet)"

bench-%: $(DEV)
	@test -f benchmarks/$*.py || { echo "No benchmark '$*'. There are: $(or $(BENCHMARKS),none yet)." >&2; exit 1; }
	$(BIN)/python benchmarks/$*.py $(ARGS)

clean:  ## remove caches (compiled kernels too) and build outputs; .venv stays
	find src tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	rm -rf build demo dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

distclean: clean  ## clean, and remove .venv
	rm -rf $(VENV)

# Benchmarks measure time: two at once would measure each other.
.NOTPARALLEL:

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "$(PYTHON) not found. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Trellis needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) -m venv failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(PACKAGE): $(METADATA) | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

$(DEV): $(PACKAGE)
	$(PIP) install --editable '.[dev]'
	@touch $@

$(DOCS): $(PACKAGE)
	$(PIP) install --editable '.[docs]'
	@touch $@
