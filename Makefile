# Everything runs in .venv, which each target sets up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
FUZZ ?= 100
SOAK_MINUTES ?= 30
# The versions that everything was tried with, also where the package is built; newer pips ask for them by the second name.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)

.PHONY: help demo test test-browser fuzz soak licences lint bench docs format clean
help:            ## show the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
# What is imported is compiled then; to compile all of it now takes a minute.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	@touch $@

demo: $(READY)   ## solve a small problem, print the certificate, leave a page with the plots in demo-out/
	$(BIN)/python examples/demo.py

test: $(READY)   ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-browser: $(READY)  ## drive the local page with chromium; screenshots are left in tests/browser/screenshots
	$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright
	TECU_CHROMIUM=$$(tests/browser/find_chromium.sh) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) tests/browser

fuzz: $(READY)   ## feed the loaders broken files, for as long as TECU_FUZZ=100 takes
	OMP_NUM_THREADS=1 TECU_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n $(WORKERS) -m fuzz

soak: $(READY)   ## half an hour of mixed work, with figures (SOAK_MINUTES=30)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak --minutes $(SOAK_MINUTES)

licences: $(READY) ## list the licences of all packages that come with tecu
	$(BIN)/python tools/licences.py > THIRD_PARTY_LICENSES

lint: $(READY)   ## style, types and the import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## print the figures that README and docs state
	$(BIN)/python -m pip install --quiet --disable-pip-version-check spams-bin
	$(BIN)/python -m benchmarks

docs: $(READY)   ## build the documentation, warnings are errors
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

format: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove what can be made again
	rm -rf $(VENV) demo-out docs/_build docs/gallery dist .pytest_cache .mypy_cache .ruff_cache .hypothesis tests/browser/screenshots
