# Every target makes its own .venv first, from requirements.lock, when that or pyproject.toml has changed.
PYTHON_NEEDED := 3, 11
CANDIDATES := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11
STAMP := .venv/.installed-$(shell cat pyproject.toml requirements.lock | cksum | tr ' ' '-')
BIN := .venv/bin
WORKERS ?= 3
# Commands, parts of the stack and tests start Python over and over: it must not compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up submit demo shots drill bench test check docs lock clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(STAMP) ## the whole stack in the foreground, data in .counterfoil/
	@exec $(BIN)/python -m stack up

submit: $(STAMP) ## with `make up` running: a company is submitted in the sandbox, and what to do next
	@exec $(BIN)/python -m demo.submit

demo: $(STAMP) ## a partner onboarding that survives an amended request, a lost answer and a killed worker
	@exec $(BIN)/python -m demo

shots: $(STAMP) ## docs/shots/*.png anew: Temporal UI and the gateway's page for each state (needs Debian's chromium)
	@exec $(BIN)/python -m demo.shots

drill: $(STAMP) ## a process killed or cut at every boundary, every message doubled or late; SEED=7 others, POINT=… one
	@exec $(BIN)/python -m drill

bench: $(STAMP) ## figures side by side with a plain workflow; FULL=1 for the long ones
	@exec $(BIN)/python -m bench

test: $(STAMP) ## every test, by three processes side by side; WORKERS=0 for one after the other
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

check: $(STAMP) ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(STAMP) ## the generated parts of docs/: settings, states, tutorials
	@$(BIN)/python docs/generate.py

# The image's own lock holds a part of the other, version by version.
COMPILE := uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
  --python-version 3.11 pyproject.toml

lock: ## requirements.lock and requirements.runtime.lock from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv (https://docs.astral.sh/uv/)" >&2; exit 1; }
	$(COMPILE) --extra stack --extra dev -o requirements.lock
	$(COMPILE) --no-annotate --constraint requirements.lock -o requirements.runtime.lock

clean: ## away with everything that can be made again; data in .counterfoil/ stays
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv without any stamp was interrupted and begins anew; one with an older stamp is brought up to date.
$(STAMP):
	@set -e; \
	for python in $(CANDIDATES); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < ($(PYTHON_NEEDED)))' 2>/dev/null && found=$$python && break; \
	done; \
	[ -n "$$found" ] || { echo "Python >= 3.11 is needed and none of '$(strip $(CANDIDATES))' is one; \
	install it or name it: make PYTHON=/path/to/python" >&2; exit 1; }; \
	ls .venv/.installed-* >/dev/null 2>&1 || clear=--clear; \
	rm -f .venv/.installed-*; \
	echo "making .venv with $$found from requirements.lock"; \
	"$$found" -m venv $$clear .venv; \
	export PIP_DISABLE_PIP_VERSION_CHECK=1; \
	$(BIN)/pip install --quiet --no-compile --require-hashes -r requirements.lock; \
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .; \
	touch $@
