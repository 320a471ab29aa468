# Everything a user or contributor runs. `make help` lists it.

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -c
RUST_NEEDED := 1.95
# The suites that run a second time, over a ring: see docs/loops.md, "Tests".
RING_SUITES := drive programs proxy server tls
# Tests in them that do not: they set their loop (a module for each, or exact calls), or their code
# does not depend on it.
RING_OWN    := ::poll:: ::ring:: ::level:: ::edge:: ::one_shot:: ::registered_once:: _bytewise:: \
  budgets:: rings:: accepts:: audit:: bench:: docs:: fulmar_get:: fulmar_load:: haproxy_alike:: plans::
# What the tests build for themselves (tests/process.rs), so that nothing is built twice.
WORKSPACE   := --workspace --bins --examples
TARGET_DIR  := $(or $(CARGO_TARGET_DIR),target)
# The profile of `make build` and `make demo`: `release` compiles quickly, `dist` runs fastest, and
# the tests use `dev`.
PROFILE     := release
# The checker of `make conformance-curl-memory`: `valgrind`, or `address` (AddressSanitizer, with a
# nightly toolchain).
MEMORY_CHECK := valgrind
MEMORY_PROFILE = $(if $(filter address,$(MEMORY_CHECK)),address,$(PROFILE))
BINARIES    := $(if $(filter /%,$(TARGET_DIR)),,./)$(TARGET_DIR)
FULMAR      := $(BINARIES)/$(PROFILE:dev=debug)/fulmar

.PHONY: help demo test test-usual test-ring conformance-h2 conformance-curl conformance-curl-memory bench build build-tests capi dist fuzz deny features fmt lint platforms cargo tools

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## An embedded server, 1,000 connections, 5 seconds, both ledgers
	$(FULMAR) load -c 1000 -d 5 --ledger

test: tools ## All tests, with real peers (installs Debian packages that are missing; needs root then)
	scripts/setup-peers
	$(MAKE) build-tests
	$(MAKE) -j2 test-usual test-ring # side by side: they wait more than they compute

conformance-h2: build ## h2spec, and clients of Go and Python against serve (installs Go and pip)
	scripts/setup-go
	scripts/setup-pip
	conformance/h2/run $(FULMAR) $(TARGET_DIR)/conformance/h2

conformance-curl-memory: tools ## A sample of curl's own tests in valgrind; MEMORY_CHECK=address: all of them
	scripts/setup-curl-tests
	scripts/build-capi $(MEMORY_PROFILE)
	conformance/curl/run $(TARGET_DIR)/$(MEMORY_PROFILE:dev=debug)/lib $(TARGET_DIR)/conformance/curl \
	  --$(MEMORY_CHECK)

conformance-curl: tools ## curl's own tests over libcurl.so.4 (installs Debian packages that are missing)
	scripts/setup-curl-tests
	scripts/build-capi $(PROFILE)
	conformance/curl/run $(TARGET_DIR)/$(PROFILE:dev=debug)/lib $(TARGET_DIR)/conformance/curl
	scripts/setup-curl-programs
	conformance/curl/examples/run $(TARGET_DIR)/conformance/curl/curl-7.88.1 \
	  $(TARGET_DIR)/$(PROFILE:dev=debug)/lib $(TARGET_DIR)/conformance/curl/examples
	conformance/curl/programs/run $(TARGET_DIR)/$(PROFILE:dev=debug)/lib $(TARGET_DIR)/conformance/curl/programs

bench: tools ## All benchmarks beside the peers: target/results.md, .json and .html
	bench/run --out $(TARGET_DIR)/results.json --html $(TARGET_DIR)/results.html

# Everything, over what is usual: `auto`, and no polling.
test-usual:
	cargo test --workspace --no-fail-fast

# Once more with every list in a ring, and polling for longer than tests usually wait.
test-ring:
	FULMAR_DRIVER=ring:1 FULMAR_SPIN=2000 cargo test --workspace --no-fail-fast $(RING_SUITES:%=--test %) -- \
	  $(RING_OWN:%=--skip %) 2>&1 | sed --unbuffered 's/^/ring: /'

build: tools ## The binary, quickly: target/release/fulmar
	cargo build --profile $(PROFILE) $(if $(filter dev,$(PROFILE)),$(WORKSPACE),-p fulmar-cli)

dist: ## The binary for measurements and packages, which takes minutes: target/dist/fulmar
	$(MAKE) build PROFILE=dist

capi: tools ## libcurl.so.4 for C programs, in progress: target/dist/lib (docs/libcurl.md)
	scripts/build-capi dist
	@echo "a program runs on it with: LD_LIBRARY_PATH=$(abspath $(TARGET_DIR))/dist/lib PROGRAM"

# Build the programs, too: otherwise the first test that needs one builds it while others run.
build-tests: tools
	cargo test --workspace --no-run
	cargo build $(WORKSPACE)
	scripts/build-capi dev

fuzz: tools ## The fuzz targets, each for FUZZ_SECONDS (60); needs a nightly toolchain
	scripts/fuzz

fmt: cargo ## Format the code
	cargo fmt --all

lint: tools ## What CI checks besides the tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

deny: tools ## Check licences, duplicates and advisories of the dependencies
	scripts/deny

features: cargo ## Check that each feature of the library compiles without the others
	scripts/check-features

platforms: cargo ## Check the library for FreeBSD, NetBSD and macOS (installs their standard libraries)
	scripts/check-platforms

tools: cargo
	@scripts/setup-build

cargo:
	@command -v cargo >/dev/null || { \
	  echo "cargo is not on the PATH. fulmar needs Rust $(RUST_NEEDED) or later:" >&2; \
	  echo "install it with rustup (https://rustup.rs), then run: . \"\$$HOME/.cargo/env\"" >&2; \
	  echo "if an older Rust is there: rustup update stable" >&2; exit 1; }
