# make sweep      install everything, then run a small sweep of ptb (under 5 minutes)
# make test       install everything in .venv (once), then lint and run all tests
# make test-fast  the fast unit tests alone
# make lint       ruff, mypy and import-linter
# make mutants    make small mistakes and see whether the tests notice (not part of make test)
# make audit      check the versions of constraints.txt for known vulnerabilities (needs a network)
# make clean      remove the installation

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# The tests start dozens of processes, each of which would compile this project again.
unexport PYTHONDONTWRITEBYTECODE
KERNEL := $(wildcard tardis_core/kernels/native/*.[ch])

.PHONY: sweep test all-tests test-fast lint mutants audit setup clean

sweep: $(STAMP)
	$(BIN)/python -m orchestrator.sweep ptb --smoke

# The linters use the moments in which tests wait.
test: $(STAMP)
	@$(MAKE) --no-print-directory --jobs 2 lint all-tests

all-tests: $(STAMP)
	$(BIN)/python -m pytest

test-fast: $(STAMP)
	$(BIN)/python -m pytest tests/unit -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

mutants: $(STAMP)
	$(BIN)/python -m benchmarks.tools.mutants $(MUTANTS)

# --strict: a package that could not be looked up is a failure, not a pass.
audit: $(STAMP)
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

setup: $(STAMP)

# The stamp is newer than its sources, so a second run installs nothing.
$(STAMP): pyproject.toml constraints.txt setup.py $(KERNEL)
	@echo "Setting up $(VENV): a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
