# Everything a user or contributor runs. `make help` lists it.

RUST_NEEDED := 1.95
# Tests whose loop is the usual one: run once more with every list in a ring, and polling. They wait
# for longer than `auto` polls for.
RING_TESTS  := --test client_uses --test proxy_http --test server -- \
  basic:: files:: failures:: manners:: ends:: repairs:: limits::
TARGET_DIR  := $(or $(CARGO_TARGET_DIR),target)
FULMAR      := ./$(TARGET_DIR)/release/fulmar
ifneq ($(filter /%,$(TARGET_DIR)),)
FULMAR      := $(TARGET_DIR)/release/fulmar
endif

.PHONY: help demo test bench build build-tests fmt lint platforms cargo tools

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## An embedded server, 1,000 connections, 5 seconds, both ledgers
	$(FULMAR) load -c 1000 -d 5 --ledger

test: tools ## All tests, with real peers (installs Debian packages that are missing; needs root then)
	scripts/setup-peers
	$(MAKE) -j2 build build-tests # the binary's last link keeps one core busy for minutes
	cargo test --workspace
	FULMAR_DRIVER=ring:1 FULMAR_SPIN=2000 cargo test --workspace $(RING_TESTS)

bench: build ## All measurements, against the peers: the reference report, then the bars of the README
	$(FULMAR) bench all --json $(TARGET_DIR)/reference.json --html $(TARGET_DIR)/reference.html
	cp $(TARGET_DIR)/reference.json $(TARGET_DIR)/reference.html bench/ # none that was interrupted
	bench/run

build: tools ## The binary
	cargo build --release -p fulmar-cli

build-tests: tools
	cargo test --workspace --no-run

fmt: cargo ## Format the code
	cargo fmt --all

lint: tools ## What CI checks besides the tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

platforms: cargo ## Check the library for FreeBSD, NetBSD and macOS (installs their standard libraries)
	scripts/check-platforms

tools: cargo
	@scripts/setup-build

cargo:
	@command -v cargo >/dev/null || { \
	  echo "cargo is not on the PATH. fulmar needs Rust $(RUST_NEEDED) or later:" >&2; \
	  echo "install it with rustup (https://rustup.rs), then run: . \"\$$HOME/.cargo/env\"" >&2; \
	  echo "if an older Rust is there: rustup update stable" >&2; exit 1; }
