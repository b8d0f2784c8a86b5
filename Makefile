# Everything sets itself up: only Python 3.11+, make and a package registry are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test test-slow lint gate bench clean

# The stamp holds the environment to the pinned requirements; the package itself is installed in place.
$(VENV)/installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# Torch is for tests alone. Where it cannot be installed, the tests that need it are skipped, and say so.
$(VENV)/torch: $(VENV)/installed requirements-torch.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --retries 1 \
		--extra-index-url $(TORCH_INDEX) -r requirements-torch.txt \
		|| echo "torch cannot be installed here: the tests of torch kernels will be skipped" >&2
	touch $@

demo: $(VENV)/installed
	$(BIN)/certify demo

test: $(VENV)/torch
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: $(VENV)/torch
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

# cases/ and cli/ become certify.cases and certify.cli only when installed: mypy and import-linter read that.
lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/installed .
	cd build/installed && $(abspath $(BIN))/mypy -p certify --config-file ../../pyproject.toml
	cd build/installed && $(abspath $(BIN))/lint-imports --no-logo --no-cache ../../pyproject.toml

# The project's own gate. `make gate UPDATE=--update` makes today's report the baseline.
gate: $(VENV)/installed
	rm -rf build/gate
	$(BIN)/certify demo -o build/gate/report.json
	$(BIN)/certify gate tests/data/demo.baseline.json build/gate/report.json \
		--fail-on 'eps_*:1%' --fail-on 'max_magnitude:1%' --fail-on 'q:1e-5' --fail-on 'count:5%' $(UPDATE)

bench: $(VENV)/torch
	$(BIN)/python benchmarks/rounding.py
	$(BIN)/python benchmarks/tightness.py
	$(BIN)/python benchmarks/contraction.py
	$(BIN)/python benchmarks/containment.py
	$(BIN)/python benchmarks/scale.py

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
