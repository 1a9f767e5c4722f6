# One command a job; `make demo` and `make test` work alone on a fresh clone.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FLOORS := protos data model runtime export server client jobs cli

.PHONY: setup demo test check protos clients bench

setup: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	mkdir -p build/typing/foretell
	for floor in $(FLOORS); do ln -sfn ../../../$$floor build/typing/foretell/$$floor; done
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/foretell demo --output demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

protos: $(STAMP)
	$(BIN)/python protos/generate.py

# Other people's clients, for tests/clients; `make test` makes them too, and skips where it can't.
clients: $(STAMP)
	$(BIN)/python tests/clients/environment.py

bench: $(STAMP)
	$(BIN)/python tests/benchmarks/forecast_speed.py
