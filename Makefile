# Everything sets itself up: only Python 3.11+, make and a package registry are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-slow lint bench clean

# The stamp holds the environment to the pinned requirements; the package itself is installed in place.
$(VENV)/installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: $(VENV)/installed
	$(BIN)/certify demo

test: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

# cases/ and cli/ become certify.cases and certify.cli only when installed: mypy and import-linter read that.
lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/installed .
	cd build/installed && $(abspath $(BIN))/mypy -p certify --config-file ../../pyproject.toml
	cd build/installed && $(abspath $(BIN))/lint-imports --no-logo --no-cache ../../pyproject.toml

bench: $(VENV)/installed
	$(BIN)/python benchmarks/rounding.py
	$(BIN)/python benchmarks/tightness.py
	$(BIN)/python benchmarks/contraction.py

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
