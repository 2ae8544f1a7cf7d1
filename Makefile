# `make demo` and `make test` work from a bare clone: they first create .venv with everything in it.
PYTHON ?= python3
# The default build of torch on Linux brings gigabytes of CUDA libraries. Any build works: make demo TORCH=<requirement>
TORCH ?= torch==2.13.0
VENV := .venv
INSTALLED := $(VENV)/.installed
PACKAGES := sim teacher student adapt
export TERAPIXEL_THREADS ?=

.PHONY: help demo test check bench isolated
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml $(PACKAGES:%=packages/%/pyproject.toml)
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 10) <= sys.version_info < (3, 14) else "Python 3.10 to 3.13 is needed; choose one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/bin/python -m pip install --quiet $(TORCH) --group dev $(PACKAGES:%=-e packages/%)
	touch $@

demo: $(INSTALLED)  ## teacher, student, adapted student, table and film in runs/demo
	$(VENV)/bin/python tools/demo.py tools/configs/demo.yaml $(ARGS)

test: $(INSTALLED)  ## all tests, under 10 minutes on 2 cores
	TERAPIXEL_THREADS=1 OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest packages tests -n 2 --dist loadfile $(ARGS)

check: $(INSTALLED)  ## formatting, lint and types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy packages tools

bench: $(INSTALLED)  ## speed, as JSON lines with a ratio to a yardstick
	$(VENV)/bin/python tools/bench.py render step observe ppo $(ARGS)

isolated: $(INSTALLED)  ## install each package alone and run its own tests there
	TORCH="$(TORCH)" PYTHON="$(PYTHON)" bash .ci/isolated $(PACKAGES)
