# Needs Python 3.11 or later and make. Installs into .venv.

# Default: the first Python that is 3.11 or later.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo $$python && break; done)

VENV := .venv
# $(VENV)/bin/dragoman and pip would break when the directory is moved.
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check -c requirements.lock

.PHONY: help serve test test-all lint bench bench-online bench-step bench-quality bench-fidelity bench-reliability bench-training client lock clean
.DEFAULT_GOAL := help

help: ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 20

serve: $(VENV)/.serving ## serve the bundles; HOST, PORT, and MODELS="fr-en en-fr" to fetch first, UPGRADE=1 for better ones
	@exec $(RUN) -m service serve $(if $(UPGRADE),--upgrade)

ifdef HOST
serve: export DRAGOMAN_HOST := $(HOST)
endif
ifdef PORT
serve: export DRAGOMAN_PORT := $(PORT)
endif
ifdef MODELS
serve: export DRAGOMAN_MODELS := $(MODELS)
endif

# One worker per core. A file stays with one worker, because its fixtures are shared.
TEST := $(RUN) -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.development ## run the tests that train nothing and start no server; ARGS go to pytest
	$(TEST) -m 'not slow' $(ARGS)

test-all: $(VENV)/.development ## run every test that needs no GPU; ARGS as well
	$(TEST) $(ARGS)

lint: $(VENV)/.development ## check style and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(VENV)/.development ## measure our speed against CTranslate2's; ARGS=--full for every cell
	$(RUN) -m benchmarks.offline $(ARGS)

bench-online: $(VENV)/.development ## the same through HTTP, at rising rates; ARGS as well
	$(RUN) -m benchmarks.online $(ARGS)

bench-step: $(VENV)/.development ## what one decoding step costs; ARGS as well
	$(RUN) -m benchmarks.step $(ARGS)

bench-quality: $(VENV)/.development ## translate the test sets and print BLEU and chrF; ARGS as well
	$(RUN) -m benchmarks.quality $(ARGS)

bench-fidelity: $(VENV)/.development ## count figures and symbols that translations keep; ARGS as well
	$(RUN) -m benchmarks.fidelity $(ARGS)

bench-reliability: $(VENV)/.development ## compare the confidence of words with references; ARGS as well
	$(RUN) -m benchmarks.reliability $(ARGS)

bench-training: $(VENV)/.development ## our training step beside a plain PyTorch loop's; ARGS as well
	$(RUN) -m benchmarks.training $(ARGS)

$(RUN):
	@test -n '$(PYTHON)' || \
		{ echo 'Dragoman needs Python 3.11 or later; name one: make serve PYTHON=...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Order-only: the modification time of the interpreter does not show what is installed.
$(VENV)/.serving: pyproject.toml requirements.lock | $(RUN)
	@echo 'Installing what serving needs into $(VENV) ...'
	@$(INSTALL) -e '.[cpu]'
	@touch $@

$(VENV)/.development: pyproject.toml requirements.lock | $(RUN)
	@echo 'Installing what testing needs into $(VENV); with torch, this takes a while ...'
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.serving $@

client: $(VENV)/.development ## generate the synchronous client from the asynchronous
	$(RUN) -m tools.generate_client

lock: ## pin everything anew; see the top of requirements.lock
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet --use-feature=fast-deps --dry-run \
		--ignore-installed --report build/lock/report.json '.[cpu,gpu,fleet,oidc,train,tracing,ray,wandb,mlflow,bench,dev]'
	{ grep '^#' requirements.lock; build/lock/bin/python -c 'import json, re, sys; \
		print(*sorted(re.sub("[-_.]+", "-", each["metadata"]["name"]).lower() \
		+ "==" + each["metadata"]["version"].lower() \
		for each in json.load(sys.stdin)["install"] if not each["is_direct"]), sep="\n")' \
		< build/lock/report.json; } > build/lock/requirements.lock
	mv build/lock/requirements.lock requirements.lock

clean: ## remove the environment and everything that tools left behind
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
