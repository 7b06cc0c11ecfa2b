# The front door. Every target installs what it lacks (Debian's packages, through sudo unless root) and can be run on a fresh machine
# that has a Rust toolchain.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help quickstart test lint duplicates bench bench-peers bench-ablation bench-recovery simulate fuzz image compose-test clean prerequisites python

# The benchmarks leave nothing in the source tree.
export PYTHONDONTWRITEBYTECODE := 1

TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# In `make fuzz`: cases per property, sets of tables for random queries (25 queries each), rounds of random faults.
CASES ?= 5000
SEEDS ?= 100
ROUNDS ?= 100
# Arguments for the benchmarks: make bench BENCH='--sf 1 --pairs 5'
BENCH ?=
PEERS ?=
RECOVERY ?=

help: ## Lists the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

# have COMMAND PACKAGES: installs Debian packages when a command is missing.
define have
	@if ! command -v $(1) >/dev/null; then \
	    sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$sudo apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq $(2) >/dev/null; \
	fi
endef

prerequisites:
	@command -v cargo >/dev/null || { echo "a Rust toolchain is needed: https://rustup.rs" >&2; exit 1; }
	$(call have,cc,build-essential)
	$(call have,pkg-config,pkg-config)

python:
	$(call have,python3,python3 python3-venv)
	@python3 -c 'import ensurepip' 2>/dev/null || { \
	    sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$sudo apt-get update -qq; DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq python3-venv >/dev/null; }

quickstart: prerequisites ## Builds the release and runs TPC-H queries on a cluster in one process.
	cargo build --release --workspace --bin thalweg
	deploy/quickstart.sh $(TARGET_DIR)/release/thalweg

# The binary first: the tests run it, and cargo builds a package's binary only for that package's own tests. The profile shares
# its dependencies with the release (Cargo.toml).
test: prerequisites ## Runs every test but those that need Docker.
	cargo build --profile bench --workspace --bin thalweg
	cargo test --profile bench --workspace

lint: prerequisites duplicates ## Formatting, clippy, one version of what moves as a set, licences and advisories.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny check licenses bans sources; else echo "cargo-deny is not installed: skipped"; fi

# Two majors of one of these in a build means types that look alike and do not fit.
duplicates:
	@found=$$(awk '/^name = /{name=$$3} /^version = /{print name}' Cargo.lock | tr -d '"' | sort | uniq -d \
	    | grep -xE 'arrow|arrow-flight|parquet|object_store|sqlparser|tonic|prost|datafusion' || true); \
	if [ -n "$$found" ]; then echo "in Cargo.lock in more than one version:" $$found >&2; exit 1; fi

bench: prerequisites python ## TPC-H against in-process DataFusion in pairs, latency, start and idle cost (BENCH='--sf 1'); skewed joins.
	python3 integration-tests/bench/bench.py $(BENCH)
	python3 integration-tests/bench/skew.py

bench-peers: prerequisites python ## One pass of Sail, Spark, Flink, DuckDB and DataFusion over the same files (PEERS='--engines sail').
	python3 integration-tests/bench/peers.py $(PEERS)

bench-ablation: prerequisites python ## TPC-H with every run-time feature on against each one off (ABLATION='--sf 10 --rounds 3').
	python3 integration-tests/bench/ablation.py $(ABLATION)

bench-recovery: prerequisites python ## The JobManager killed in the middle of TPC-H queries, and what its journal costs (RECOVERY='--sf 1').
	python3 integration-tests/bench/recovery.py $(RECOVERY)

simulate: prerequisites ## The scheduler alone: policies compared over made-up data, and a job of 10,000 x 10,000 subtasks on 500 TaskManagers.
	cargo build --release --workspace --example simulate
	$(TARGET_DIR)/release/examples/simulate policies
	$(TARGET_DIR)/release/examples/simulate scale

fuzz: prerequisites ## Property tests with many more cases, random queries, random faults (CASES=5000 SEEDS=100 ROUNDS=100).
	cargo build --profile bench --workspace --bin thalweg
	PROPTEST_CASES=$(CASES) cargo test --profile bench --workspace --lib
	RANDOM_SEEDS=$(SEEDS) RANDOM_FROM=$${RANDOM_FROM:-$$(date +%s)} cargo test --profile bench --workspace --test it random_queries
	CHAOS_ROUNDS=$(ROUNDS) CHAOS_FROM=$${CHAOS_FROM:-1} cargo test --profile bench --workspace --test it chaos -- --nocapture

image: prerequisites ## Builds the container image thalweg:latest.
	deploy/image.sh

compose-test: prerequisites python ## The composed cluster: a container killed, another cut off the network, answers compared.
	deploy/compose-test.sh

clean: ## Removes what was built; benchmark data in .bench stays.
	cargo clean
