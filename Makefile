# One entry point for everything that is run by hand or by machine. Nothing here needs activation.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup check format golden examples accuracy audit bench fuzz wheel-check launch-check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(BIN)/gpuselect  ## make .venv and install the package with its development tools

$(BIN)/gpuselect: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

format:  ## format the sources and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check:  ## format, lint, types, layers, tests, documentation, catalog
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2
	@set -e; for script in $(wildcard tools/check_*.py); do \
		echo "$$script"; $(BIN)/python "$$script"; done

golden:  ## store the six representative decisions anew; read the difference before you commit it
	$(BIN)/python tools/golden.py || true
	$(BIN)/python tools/golden.py --write

examples:  ## write docs/examples anew: the reports of five workloads; read the difference before you commit it
	$(BIN)/python tools/examples.py || true
	$(BIN)/python tools/examples.py --write

accuracy:  ## predictions against the measured rows, each source left out in turn: docs/accuracy.md and README
	$(BIN)/python tools/fit_calibration.py --cv
	$(BIN)/python tools/check_docs.py --write

audit:  ## known vulnerabilities of what the package needs; says so where the database cannot be reached
	$(BIN)/python tools/audit.py

bench:  ## start-up, search time and memory against their budgets
	$(BIN)/python tools/bench.py

fuzz:  ## 50000 odd flags, files and faults; half an hour (a short run is part of check)
	$(BIN)/python tools/fuzz.py --inputs 50000

wheel-check:  ## build the wheel and run it from an empty environment in another directory
	@set -eu; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(BIN)/python -m build --wheel --outdir "$$scratch/dist" . >"$$scratch/build.log" 2>&1 \
		|| { cat "$$scratch/build.log"; exit 1; }; \
	$(PYTHON) -m venv "$$scratch/venv"; \
	"$$scratch/venv/bin/pip" install --quiet "$$scratch"/dist/*.whl; \
	cd "$$scratch"; venv/bin/gpuselect recommend --params 10B --task training

launch-check: .launch-venv/ready  ## launch files through the tools' own loaders, in .launch-venv: docs/launch-check.md
	@set -eu; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(BIN)/python tools/launch_cases.py --write "$$scratch"; \
	.launch-venv/bin/python tools/launch_loaders.py "$$scratch" --page docs/launch-check.md

.launch-venv/ready: tools/launch_requirements.txt
	$(PYTHON) -m venv .launch-venv
	.launch-venv/bin/pip install --quiet --requirement tools/launch_requirements.txt
	@touch $@

clean:  ## remove what the tools left
	rm -rf dist build .audit-venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache data/catalog.json
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
