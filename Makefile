# Everything runs in .venv, which the first target that needs it sets up: a machine with Python, 3.10 to 3.13, is enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed

.PHONY: demo test test-compile test-gpu sanitize perf lint clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)          # a fused kernel: on the GPU if there is one, else its schedule in the simulator
	$(BIN)/python -m cute_kernels demo

test: lint              # the CPU suite: simulator and compile-only
	$(BIN)/python -m pytest -n 2 --dist loadfile -q --durations=5 tests --ignore=tests/gpu

test-compile: $(READY)  # every kernel compiled for every architecture, no GPU needed
	$(BIN)/python -m pytest -q tests/device

test-gpu: $(READY)      # on a Hopper or Blackwell GPU, in processes of their own: a fault or a hang costs one test
	$(BIN)/python tools/gpu_suite.py

sanitize: $(READY)      # the same, and CUDA's compute-sanitizer: memory, barriers, races
	$(BIN)/python tools/sanitize.py

perf: $(READY)          # on a Hopper or Blackwell GPU: speed beside peers
	$(BIN)/python -m perf

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build out .pytest_cache .mypy_cache .ruff_cache
