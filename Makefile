# make sweep   set everything up, then a small sweep of ptb (under 5 minutes)
# make test    set everything up in .venv (once), then ruff, mypy and the tests
# make lint    ruff and mypy alone
# make audit   known holes in the versions of constraints.txt (asks the package index)
# make clean   forget the set-up

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
KERNEL := $(wildcard tardis_core/kernels/native/*.[ch])

.PHONY: sweep test lint audit setup clean

sweep: $(STAMP)
	$(BIN)/python -m orchestrator.sweep ptb --smoke

test: lint
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# --strict: a package that could not be looked up is a failure, not a pass.
audit: $(STAMP)
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

setup: $(STAMP)

# The stamp is newer than what it was made from, so a second run installs nothing.
$(STAMP): pyproject.toml constraints.txt setup.py $(KERNEL)
	@echo "Setting up $(VENV): a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
