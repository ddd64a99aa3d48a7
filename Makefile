# Every target is one small script; CI calls the same ones.
# A fresh clone needs make and Python >= 3.11:  make setup test
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Hundreds of processes are started by the tests: each would compile every source again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench sim sim-control accept playbooks fmt conformance reference wheel fast-wheel fast clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv and install the package with its tools

# The stamp is younger than pyproject.toml as long as nothing has to be installed again.
$(STAMP): pyproject.toml
	PYTHON="$(PYTHON)" scripts/setup "$(VENV)"
	@touch $@

demo: $(STAMP) ## run, send, kill, start again, replay: equal roots
	scripts/demo

test: $(STAMP) ## all tests, in random order
	scripts/test

check: $(STAMP) ## lint, format, types, import contracts, tidy, documents
	scripts/check

bench: $(STAMP) ## measure, and compare with the floors
	scripts/bench

sim: $(STAMP) ## deterministic simulation under faults
	scripts/sim

sim-control: $(STAMP) ## the simulation must find each planted defect
	scripts/sim --control

accept: $(STAMP) ## black-box tests against real nodes, with their controls; writes reports/
	scripts/accept

playbooks: $(STAMP) ## play the collected playbooks of other people as their index says
	scripts/playbooks

fmt: $(STAMP) ## format, and mend what can be mended
	scripts/fmt

conformance: $(STAMP) ## run all tests and write docs/conformance.md
	scripts/conformance

reference: $(STAMP) ## write what is generated: docs/reference and the session of the README
	python scripts/reference
	python scripts/readme

wheel: $(STAMP) ## dist/*.whl, for every machine
	python -m hatchling build -t wheel

fast-wheel: fast ## dist/*.whl with the compiled rooms, for machines like this one
	TALLY_FAST_WHEEL=1 python -m hatchling build -t wheel

fast: $(STAMP) ## compile the pure rooms; takes minutes
	python scripts/build_fast

clean: ## remove what can be made again, but for the environment
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage htmlcov
