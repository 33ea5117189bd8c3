# All commands of the project. `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

KAPPA_CACHE ?= $(HOME)/.cache/kappa
export KAPPA_CACHE
# The tests start hundreds of Python processes. Where the environment forbids bytecode, each compiles its modules: a second for pandas alone.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/bytecode
PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV := $(shell command -v uv || echo $(KAPPA_CACHE)/uv/bin/uv)
RUN := $(UV) run --frozen --no-sync
GENERATE := PYTHONPATH=tests:monitoring/src $(RUN) python -m generate
LAB := PYTHONPATH=tests $(RUN) python -m lab
SUPPLY := PYTHONPATH=tests $(RUN) python -m supply
BROKERS ?= 1
LANES ?= 2

.PHONY: help setup jars up down status demo demo-cdc demo-reprocess test test-cluster-chain test-cdc-chain test-waiting-chain test-services-chain test-computing-chain test-unit test-unit-control test-unit-runtime test-unit-rest spark test-spark test-laptop test-waiting test-integration test-services test-cdc test-e2e chaos bench verify scan generate images lint lint-types lint-style fmt

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}'

$(KAPPA_CACHE)/uv/bin/uv:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv"; exit 1; }
	@echo "installing uv into $(KAPPA_CACHE)/uv"
	@$(PYTHON) -m venv $(KAPPA_CACHE)/uv
	@$(KAPPA_CACHE)/uv/bin/pip install --quiet --require-hashes -r requirements/uv.txt

setup: $(if $(wildcard $(UV)),,$(KAPPA_CACHE)/uv/bin/uv) ## Install Python dependencies from the lock into .venv
	@command -v javac >/dev/null || { echo "Java 17 is missing: apt-get install openjdk-17-jdk-headless"; exit 1; }
	@$(UV) sync --frozen --check --quiet 2>/dev/null || { \
	    echo "installing the Python packages of the lock into .venv: minutes on a new machine"; \
	    if [ -t 2 ]; then $(UV) sync --frozen; else $(UV) sync --frozen 2>&1 | sed -u '/^ [-+~] /d'; fi; }
	@command -v mvn >/dev/null || $(LAB) packages maven
	@$(RUN) python pipelines/jvm/build.py

# Spark as in the image, with an archive of the classes that a driver loads: JVMs of tests start from it in two thirds of the time.
spark: setup
	@$(LAB) spark >/dev/null

up: setup ## Start the local cluster with Kafka (BROKERS=3 for three brokers)
	@$(LAB) up --brokers $(BROKERS)

down: setup ## Stop the local cluster and remove all of its data
	@$(LAB) down

status: setup ## Show the state of the cluster
	@$(LAB) status

images: up ## Build the images, load them into the cluster, and list their contents (build/sbom)
	@$(LAB) images
	@$(SUPPLY) sbom

demo: setup ## Run the flights pipeline on real data and compare it with DuckDB (KEEP=1 leaves it in place, REMOVE=1 removes it)
	@PYTHONPATH=tests $(RUN) python -m demo $(if $(KEEP),--keep) $(if $(REMOVE),--remove)

demo-cdc: setup ## Follow an online shop in PostgreSQL by change events and compare its views with the database (KEEP=1, REMOVE=1 as above)
	@PYTHONPATH=tests $(RUN) python -m demo.shop $(if $(KEEP),--keep) $(if $(REMOVE),--remove)

demo-reprocess: setup ## Fix a bug of a pipeline by a reprocessing while readers keep reading (KEEP=1, REMOVE=1 as above)
	@PYTHONPATH=tests:client/src $(RUN) python -m demo.reprocess $(if $(KEEP),--keep) $(if $(REMOVE),--remove)

# Five chains run concurrently. The longest has the tests on the whole cluster, whose pods have two cores to themselves in the eyes of the
# kernel. Three others mostly wait. The last only computes, so it has a low priority and fills what the others leave. Cluster and Spark are
# ready by then; `-o` avoids another check.
test: up spark ## Run all tests except for the long ones
	@$(MAKE) -j5 test-cluster-chain test-cdc-chain test-waiting-chain test-services-chain test-computing-chain

test-cluster-chain:
	@$(MAKE) -o up test-integration
	@$(MAKE) test-e2e

test-cdc-chain:
	@$(MAKE) -o up test-cdc

test-waiting-chain:
	@$(MAKE) -o spark test-waiting

test-services-chain:
	@$(MAKE) -o up test-services
	@$(MAKE) -o spark test-spark

test-computing-chain:
	@nice $(MAKE) -o spark -j2 test-laptop test-unit-control test-unit-runtime test-unit-rest

test-unit: test-unit-control test-unit-runtime test-unit-rest ## Run the tests that need nothing but Python and promtool

test-unit-control: setup
	@$(RUN) pytest tests/unit/control tests/unit/test_permissions_used.py -m "not chaos"

test-unit-runtime: setup
	@$(RUN) pytest tests/unit/runtime -m "not chaos"

# `test_permissions_used.py` needs all tests of `control` in its session.
test-unit-rest: setup
	@$(RUN) pytest tests/unit -m "not chaos" $(addprefix --ignore=tests/unit/,control runtime test_permissions_used.py)

# Of all tests on Spark, those that wait longest: so many that this chain takes as long as that of test-services and test-spark.
WAITING := $(patsubst %,tests/spark/test_%.py,batch_bound buckets compare driver driver_exits early_session exactly_once handover hold kafka_permissions malformed many_partitions native_kafka only real_time repartition subscriptions transactional_sink transactions upgrades)

test-spark: spark ## Run the tests on real Spark and Kafka, except for those of test-waiting
	@$(RUN) pytest tests/spark -m "not chaos" $(WAITING:%=--ignore=%)

test-waiting: spark ## Run the tests on real Spark and Kafka that mostly wait
	@$(RUN) pytest $(WAITING) -m "not chaos"

test-laptop: spark ## Run the tests of the commands that need no cluster, and of streams against batches over the same rows
	@$(RUN) pytest tests/laptop -m "not chaos"

test-integration: up ## Run the tests on a real API server
	@$(RUN) pytest tests/integration -m "not chaos and not clusterless"

CDC := $(addprefix tests/integration/,test_cdc* test_connect* test_outbox.py)

test-services: up ## Run the tests on real Kafka, S3, HDFS and Prometheus, and of the chart
	@$(RUN) pytest tests/integration -m "not chaos and clusterless" $(CDC:%='--ignore-glob=$(CURDIR)/%')

test-cdc: up ## Run the tests on real databases and Kafka Connect that need no cluster
	@$(LAB) classes
	@$(RUN) pytest $(CDC) -m "not chaos and clusterless"

test-e2e: images ## Run the tests on the whole cluster in two concurrent processes (LANES=0: in one)
	@$(RUN) pytest tests/e2e -m "not chaos" -n $(LANES)

# Each group has its own session: integration tests need the cluster without the operator, those on the whole cluster with it.
chaos: images spark ## Run the long fault-injection tests, and all examples of properties
	@failed=0; for group in spark laptop integration e2e; do $(RUN) pytest tests/$$group -m chaos || failed=1; done; \
	KAPPA_ALL_EXAMPLES=1 $(RUN) pytest tests/unit || failed=1; exit $$failed

bench: images ## Measure; each bench prints one JSON object as its last line (QUICK=--quick for a short one)
	@for bench in $$(grep -l __main__ tests/bench/*.py); do echo "== $$bench"; PYTHONPATH=tests $(RUN) python $$bench $(QUICK); done

generate: setup ## Regenerate CRDs, rules, dashboards and reference documents from their sources
	@$(GENERATE) write

verify: setup ## Fail where generated files differ from their sources, or a download is not locked by a hash
	@$(UV) lock --check --quiet
	@$(GENERATE) check
	@$(SUPPLY) locks

scan: images ## Look for known vulnerabilities in the images (OSV_DB=folder with the data of OSV, where it cannot be reached)
	@$(SUPPLY) scan

DOCS = $$(git ls-files '*.md' ':!docs/reference' ':!tests/prose')
MDFORMAT := $(RUN) mdformat --wrap 100 --number --compact-tables

lint: setup ## Check style, types, module boundaries and prose
	@$(MAKE) -j2 --output-sync lint-types lint-style

# What mypy found is kept for new clones too: it compares hashes of the sources. Without it the types take 41 s of processor time, else 1.
# Clones that are checked at the same time take turns: mypy does not lock its files.
lint-types:
	@mkdir -p $(KAPPA_CACHE) && flock $(KAPPA_CACHE)/mypy.lock $(RUN) mypy --cache-dir $(KAPPA_CACHE)/mypy crds/src operator/src pipelines/src pipelines/archive_classes.py pipelines/prune_jars.py pipelines/jvm/build.py connect monitoring/src client/src tests

lint-style:
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) lint-imports
	@$(MDFORMAT) --check $(DOCS)
	@PYTHONPATH=tests $(RUN) python -m prose

fmt: setup ## Format code and documents
	@$(RUN) ruff check --fix
	@$(RUN) ruff format
	@$(MDFORMAT) $(DOCS)
