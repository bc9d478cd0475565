# Everything happens in .venv; another interpreter: make PYTHON=python3.12 test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs samples benchmark clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.installed ## Analyze a small sample job and write demo/report.html
	@mkdir -p demo
	$(BIN)/tracelab analyze sample_traces/slow_gpu -o demo/report.html --force
	@echo "Open the report in a browser: file://$(CURDIR)/demo/report.html"

test: lint ## Lint, type check, import rules and all tests
	$(BIN)/pytest -n auto --dist loadfile

lint: $(VENV)/.installed-test ## Lint, type check and import rules only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=.:parsers:reports $(BIN)/lint-imports

docs: $(VENV)/.installed-test ## Write the generated pages of docs/ again
	$(BIN)/python -m tests.docs.pages

samples: $(VENV)/.installed-test ## Write sample_traces/ again
	$(BIN)/python -m tests.builders.samples

benchmark: $(VENV)/.installed-test ## Compare the speed of reading with other tools (minutes, gigabytes)
	$(BIN)/python -m benchmarks.ingest

clean: ## Remove everything that can be made again, .venv too
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: tracelab needs Python 3.11 or newer, and '$(PYTHON)' is none. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: '$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.installed
