# Two commands do all the set-up: `make demo` and `make test`. They need Python 3.11, make and a C compiler.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo feedback test check up clean lock fix bench-gateway bench-ledger bench-rewards bench-fuzz bench-faults bench-crashes bench-learning bench-train bench-scale

demo: $(READY)  ## the whole loop on the embedded stack, with a picture at the end
	$(BIN)/python -m examples.demo $(if $(SEED),--seed $(SEED))

feedback: $(READY)  ## learning from lone thumbs, on the embedded stack; SEED=1, FEEDBACK="--shuffled" for the control
	$(BIN)/python -m examples.feedback $(if $(SEED),--seed $(SEED)) $(FEEDBACK)

test: check  ## lint, types, imports, unit and integration tests, and the loop on real vLLM
	@$(BIN)/python -m tests.sdk.install
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

up: $(READY)  ## the embedded stack, until Ctrl-C
	$(BIN)/slipstream up

# torch comes first and with its dependencies (a CUDA build brings its own); everything else is exactly the lock.
$(READY): requirements/all.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: install it, or say PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing into $(VENV), once: about 3 GB, some minutes."
	@$(PYTHON) -m venv $(VENV)
	@echo "1 of 3: $$(grep '^torch==' requirements/all.lock)" && $(PIP) "$$(grep '^torch==' requirements/all.lock)"
	@echo "2 of 3: the other $$(grep -vc '^torch==' requirements/all.lock) packages of requirements/all.lock" && $(PIP) --no-deps -r requirements/all.lock
	@echo "3 of 3: slipstream itself" && PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation -e .
	@touch $(READY)

bench-gateway: $(READY)  ## CPU and latency beside nginx and LiteLLM; BENCH="--quick" or "--only chunk" for less
	$(BIN)/python -m bench.gateway $(BENCH)

bench-faults: $(READY)  ## kill -9, Postgres away, a full disk under load, 11 minutes: nothing lost; BENCH="--quick" takes two
	$(BIN)/python -m bench.faults $(BENCH)

bench-crashes: $(READY)  ## kill -9 at each transition, messages twice, clocks that jump: one version each; BENCH="--quick" for less
	$(BIN)/python -m bench.crashes $(BENCH)

bench-ledger: $(READY)  ## rows a second, how soon SQL sees them, a million of them asked; BENCH="--quick" for less
	$(BIN)/python -m bench.ledger $(BENCH)

bench-rewards: $(READY)  ## reward posts a second with durable commits, and their latency at 200/s; BENCH="--quick" for less
	$(BIN)/python -m bench.rewards $(BENCH)

bench-fuzz: $(READY)  ## bad bytes and odd values for three minutes; BENCH="--seed 7 --case 12" shows one case
	$(BIN)/python -m bench.fuzz $(BENCH)

bench-learning: $(READY)  ## what each rung of the ladder gains from the same calls, an hour; BENCH="--quick" for one seed
	$(BIN)/python -m bench.learning $(BENCH)

bench-train: $(READY)  ## a step beside TRL's on the same groups, 20 minutes; BENCH="--quick" takes ten
	$(BIN)/python -m bench.train $(BENCH)

bench-scale: $(READY)  ## a step by one process and by two: the same adapter, how much sooner; needs two free cores; BENCH="--quick" for less
	$(BIN)/python -m bench.scale $(BENCH)

lock: $(READY)  ## resolve again: all.lock first, the images' locks as parts of it
	$(BIN)/python -m requirements.lock

clean:  ## remove what we made: the environment, the stack's state, caches
	@for home in .slipstream .slipstream/demo .slipstream/feedback; do \
	  if [ -x $(BIN)/slipstream ] && [ -d $$home ]; then $(BIN)/slipstream down --home $$home || true; fi; done
	rm -rf $(VENV) .slipstream build bench/results *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
