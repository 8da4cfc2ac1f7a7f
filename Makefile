# All commands of a checkout. `make setup` installs .venv/bin/narrows and everything that it needs.
.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -eu -o pipefail -c
MAKEFLAGS     += --no-print-directory

VENV   := .venv
BIN    := $(VENV)/bin
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The files of a release.
DIST   := $(TARGET)/dist
# In the build directory, so that the removal of either is detected.
WHEEL  := $(TARGET)/wheels/.installed
# The first Python that is new enough for the tools; the package itself supports 3.10.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo $$p && break; done)
# Clippy needs the variables that maturin sets; otherwise each would rebuild pyo3 after the other.
AS_MATURIN = PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$(CURDIR)/$(BIN)/python \
             PYO3_CONFIG_FILE="$$(ls $(TARGET)/maturin/pyo3-config-*.txt)" \
             PYO3_ENVIRONMENT_SIGNATURE="$$($(BIN)/python -c 'import sys; print("cpython-%d.%d-64bit" % sys.version_info[:2])')"
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip installs only files whose hashes `make lock` recorded.
INSTALL := $(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement

# Directories are prerequisites, too, so that a removed file is detected.
RUST_SOURCES   := Cargo.toml $(wildcard Cargo.lock) $(shell find endpoint core plugin sim host python/bindings -name target -prune -o \
                    \( -type d -o -name '*.rs' -o -name '*.toml' -o -name '*.json' -o -name '*.sh' \) -print)
PYTHON_SOURCES := python/pyproject.toml $(shell find python/narrows \( -name __pycache__ -o -path python/narrows/bin -o -path python/narrows/adapters \) -prune -o -type f -print)
# The bindings have no Rust tests (python/tests covers them); included, they share features and builds.
TESTED         := --release --workspace --exclude narrows-bench
PUBLISHED      := $(addprefix --package narrows-,endpoint core plugin sim host)

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(WHEEL) ## Build and install .venv/bin/narrows

$(VENV)/.tools: python/locked/requirements.txt
	@command -v cargo > /dev/null || { echo 'make setup needs Rust 1.85 or newer: https://rustup.rs'; exit 1; }
	@[ -n "$(PYTHON)" ] || { echo 'make setup needs Python 3.11 or newer'; exit 1; }
	# Without python3-venv, Debian has venv but not ensurepip; its own pip replaces it.
	$(PYTHON) -m venv --clear $(VENV) > /dev/null || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	  && $(PYTHON) -m pip --python $(BIN)/python install --quiet --break-system-packages pip; } \
	  || { rm -rf $(VENV); echo 'make setup needs pip: install python3-venv or python3-pip'; exit 1; }
	$(INSTALL) $<
	touch $@

# Playwright, for tests that need Chromium; without it they are skipped, with the reason.
CHROMIUM := $(firstword $(shell command -v chromium chromium-browser 2> /dev/null))
$(VENV)/.browser: $(VENV)/.tools python/locked/requirements-browser.txt
	$(INSTALL) python/locked/requirements-browser.txt
	touch $@

# Optional, because it has a quarter of a gigabyte; without it tests are skipped, with the reason.
$(VENV)/.ray: $(VENV)/.tools python/locked/requirements-ray.txt
	$(INSTALL) python/locked/requirements-ray.txt
	touch $@

# Optional, because it has 270 MB for two functions; `make test` installs it.
$(VENV)/.frames: $(VENV)/.tools python/locked/requirements-frames.txt
	$(INSTALL) python/locked/requirements-frames.txt
	touch $@

# MkDocs with Material; needs no build of narrows.
$(VENV)/.docs: $(VENV)/.tools python/locked/requirements-docs.txt
	$(INSTALL) python/locked/requirements-docs.txt
	touch $@

KERNEL ?= 6.12
# quiche builds BoringSSL, which needs cmake and a C++ compiler. `earlier` is a workspace of its own, with
# earlier releases for tests of known faults.
ADAPTERS ?= quinn noq smoltcp
adapters: setup ## Build transports of other projects into the package, ADAPTERS [default: quinn noq smoltcp; also quiche earlier], for --plugin NAME
	cd adapters && [ -z '$(filter-out earlier,$(ADAPTERS))' ] || cargo build --locked --release --target-dir $(TARGET)/adapters \
	  $(patsubst %,--package narrows-%,$(filter-out earlier,$(ADAPTERS)))
	[ -z '$(filter earlier,$(ADAPTERS))' ] || { cd adapters/earlier && cargo build --locked --release --target-dir $(TARGET)/adapters; }
	for place in python/narrows "$$($(BIN)/python -c 'import narrows, os; print(os.path.dirname(narrows.__file__))')"; do \
	  install -D -m 644 --target-directory "$$place/adapters" $(TARGET)/adapters/release/libnarrows_*.so; done

kernel: setup ## Build Linux KERNEL [default: 6.12] for the engine linux, unless the cache has it
	$(BIN)/narrows kernel build $(KERNEL) --quiet

docs: $(VENV)/.docs ## Build the documentation site in target/site; fails if a link or an anchor has no target
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --config-file tools/mkdocs.yml --site-dir $(TARGET)/site

frames: $(VENV)/.frames ## Install pandas and Polars, for tests of data frames

ray: $(VENV)/.ray ## Install Ray, for sweeps on a cluster and their tests

# Node builds the report page, which is committed, so that only changes of the page need Node.
NODE := $(shell node -e 'const [a, b] = process.versions.node.split("."); process.exit(+a > 20 || (+a == 20 && +b >= 19) ? 0 : 1)' \
          2> /dev/null && command -v npm > /dev/null && echo npm)
web/node_modules/.installed: web/package.json web/package-lock.json web/.npmrc
	cd web && npm ci --silent --no-audit --no-fund
	touch $@

# The wheel contains the program narrows-host.
$(WHEEL): $(VENV)/.tools $(RUST_SOURCES) $(PYTHON_SOURCES)
	rm -rf $(@D)
	cargo build --quiet --locked --release --package narrows-host --package narrows-bindings --bin narrows-host
	install -D -s $(TARGET)/release/narrows-host python/narrows/bin/narrows-host
	$(BIN)/maturin build --quiet --locked --release --manifest-path python/bindings/Cargo.toml --interpreter $(BIN)/python --out $(@D)
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall $(@D)/narrows-*.whl
	touch $@

# musl if this target is installed, else glibc's static archive (Debian: libc6-dev).
STATIC_TARGET := $(if $(wildcard $(shell rustc --print sysroot)/lib/rustlib/$(shell uname -m)-unknown-linux-musl),$(shell uname -m)-unknown-linux-musl,$(shell uname -m)-unknown-linux-gnu)
static: ## Build narrows-host as one static file, and start it
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --package narrows-host --target $(STATIC_TARGET)
	install -D -s $(TARGET)/$(STATIC_TARGET)/release/narrows-host $(TARGET)/static/narrows-host
	! readelf -d $(TARGET)/static/narrows-host | grep NEEDED
	$(TARGET)/static/narrows-host --version

# Without live runs and TLS. A target without a standard library is built from its sources, which
# `rustup component add rust-src` or Debian's rust-web-src installs; ROUTER_RUSTC is then the compiler of the same version.
ROUTER_TARGET ?= $(STATIC_TARGET)
ROUTER_RUSTC  ?= rustc
ROUTER := $(TARGET)/$(ROUTER_TARGET)/small/narrows-host
HAS_STD = [ -d "$$($(ROUTER_RUSTC) --print sysroot)/lib/rustlib/$(ROUTER_TARGET)/lib" ]
# Without musl-tools, the compiler of the host compiles the C of ring, which uses no library.
export CC_x86_64_unknown_linux_musl ?= $(or $(shell command -v x86_64-linux-musl-gcc || command -v musl-gcc),gcc)
# Debian's cross compilers: gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf, g++-mips-linux-gnu, g++-mipsel-linux-gnu.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER    ?= aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_musl                     ?= aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER     ?= aarch64-linux-gnu-gcc
export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER ?= arm-linux-gnueabihf-gcc
# MIPS without a floating-point unit: packaging/mips/libc builds its C library.
MUSL := $(TARGET)/musl
export CARGO_TARGET_MIPS_UNKNOWN_LINUX_MUSL_LINKER       ?= $(MUSL)/mips-unknown-linux-musl/static-gcc
export CC_mips_unknown_linux_musl                        ?= $(MUSL)/mips-unknown-linux-musl/cc
export CARGO_TARGET_MIPSEL_UNKNOWN_LINUX_MUSL_LINKER     ?= $(MUSL)/mipsel-unknown-linux-musl/static-gcc
export CC_mipsel_unknown_linux_musl                      ?= $(MUSL)/mipsel-unknown-linux-musl/cc
$(MUSL)/%/.complete: packaging/mips/libc
	packaging/mips/libc $* $(@D) $(ROUTER_RUSTC)

ROUTER_MIPS  := $(filter mips%-musl,$(ROUTER_TARGET))
ROUTER_FLAGS := -C target-feature=+crt-static $(if $(ROUTER_MIPS),-C link-self-contained=no -C relocation-model=static)
router: $(ROUTER_MIPS:%=$(MUSL)/%/.complete) ## Build narrows-host for hosts without Python as one static file below 4 MB; ROUTER_TARGET selects the machine
	flags=(); if ! $(HAS_STD); then export RUSTC_BOOTSTRAP=1; flags=(-Zbuild-std=std,panic_unwind -Zbuild-std-features=panic-unwind,optimize_for_size); fi; \
	  RUSTC=$(ROUTER_RUSTC) RUSTFLAGS='$(ROUTER_FLAGS)' cargo build --locked --profile small \
	    --no-default-features --package narrows-host --target $(ROUTER_TARGET) "$${flags[@]}"
	! readelf -d $(ROUTER) | grep NEEDED
	[ $$(stat -c %s $(ROUTER)) -lt 4000000 ] && stat -c '%n: %s bytes' $(ROUTER)

ROUTER_TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-musl armv7-unknown-linux-gnueabihf \
                  mips-unknown-linux-musl mipsel-unknown-linux-musl
routers: setup ## Build narrows-host for every processor of ROUTER_TARGETS, and run each under qemu-user
	for target in $(ROUTER_TARGETS); do $(MAKE) router ROUTER_TARGET=$$target; done
	cd python && ../$(BIN)/pytest -rs tests/test_routers.py

# The program of the package; `make setup` builds another one, which needs the libraries of C.
DEB_PROGRAM ?= $(ROUTER)
DEB_ARCHITECTURE = $(patsubst x86_64-%,amd64,$(patsubst aarch64-%,arm64,$(patsubst armv7-%,armhf,$(ROUTER_TARGET))))
deb: $(if $(filter $(ROUTER),$(DEB_PROGRAM)),router,setup) ## Build the Debian package of narrows-host
	packaging/debian/build $(DEB_PROGRAM) $(DEB_ARCHITECTURE) $(DIST)

try-deb: deb ## Install and purge the Debian package in an empty Debian; needs root and debootstrap
	.ci/try-deb $(DIST)/narrows-host_*_$(DEB_ARCHITECTURE).deb

demo: setup ## Demonstrate narrows: a published experiment, then a bad path that is measured, analysed and improved
	@$(BIN)/narrows demo
	@echo
	@$(BIN)/narrows demo --story --report $(TARGET)/story.html

web: web/node_modules/.installed ## Rebuild the report page; needs Node 20.19 or newer
	cd web && npx tsc --noEmit && npx vite build --logLevel warn

# The lab's engine is WebAssembly: the target of rustup, or Debian's rustc-web, cargo-web, rust-web-src
# and lld, which build its standard library. The result is not committed; it becomes part of the wheel.
WASM    := wasm32-unknown-unknown
LAB     := python/narrows/lab
# The memory of a run is bounded; a larger run ends with an error on the page.
LAB_BUILD := rustc --quiet --locked --release --package narrows-lab --lib --crate-type cdylib \
               --target $(WASM) --target-dir $(TARGET)/lab
LAB_LINK  := -C link-arg=--max-memory=1073741824 -C strip=symbols
lab: web/node_modules/.installed ## Build the lab in the browser into the wheel; needs Node and Rust with the target wasm32
	mkdir -p $(LAB)
	@if [ -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM)" ]; then cargo $(LAB_BUILD) -- $(LAB_LINK); \
	elif [ -d /usr/lib/rustlib/src/rust/library ] && command -v wasm-ld > /dev/null; then \
	  PATH=/usr/bin:$$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
	  /usr/bin/cargo $(LAB_BUILD) -Zbuild-std=std,panic_abort -Zbuild-std-features= -- $(LAB_LINK); \
	else echo 'make lab needs the target $(WASM): rustup target add $(WASM), or on Debian apt install rustc-web cargo-web rust-web-src lld'; exit 1; fi
	cp $(TARGET)/lab/$(WASM)/release/narrows_lab.wasm $(LAB)/engine.wasm
	cd web && npx tsc --noEmit --project lab && npx vite build --config lab/vite.config.ts --logLevel warn
	@ls -l $(LAB)

test-lab: lab setup $(VENV)/.browser ## Build the lab and run its tests in Chromium
	cd python && ../$(BIN)/pytest -rs tests/test_lab.py

# .ci/skips reads results in the format of JUnit.
PYTEST := ../$(BIN)/pytest -rs --doctest-modules --pyargs narrows tests
# Two tests may write one page, so one process renews stored results.
PARALLEL := $(if $(NARROWS_GOLDEN),,--numprocesses auto --dist worksteal)
test: setup $(VENV)/.frames ## Run every exact test on all cores: Rust, Python, commands on pages; 15 minutes on two cores
	$(AS_MATURIN) cargo test --locked $(TESTED)
	cd python && $(PYTEST) -m '(exact or docs) and not long' $(PARALLEL) --junitxml $(TARGET)/tests/exact.xml

# What a run of the Rust tests writes is part of the package.
renew: setup ## Write all stored results and generated texts anew: golden tables, then all of renew-pages
	$(AS_MATURIN) NARROWS_GOLDEN=write cargo test --quiet --locked $(TESTED) -- golden:: reference:: valid_input_is_in_the_corpus
	@$(MAKE) renew-pages

renew-pages: setup ## Write stubs, digests, and tables and output in pages anew; a minute, without Rust tests
	cd python && NARROWS_GOLDEN=write ../$(BIN)/pytest -rs tests -m stored

# Tests of the system tier wait more than they compute.
test-physical: setup $(if $(CHROMIUM),$(VENV)/.browser $(VENV)/.docs) ## Run tests with namespaces, kernels and browsers, then those with the time of real packets one after another
	cd python && $(PYTEST) -m 'system and not long' --numprocesses 4 --dist worksteal --junitxml $(TARGET)/tests/system.xml
	cd python && $(PYTEST) -m 'physical and not long' --junitxml $(TARGET)/tests/physical.xml

test-long: setup $(VENV)/.ray $(if $(CHROMIUM),$(VENV)/.browser) ## Run the long tests, which the other commands exclude; seven minutes
	cd python && $(PYTEST) -m long

SHELL_SCRIPTS := .ci/empty-debian .ci/nightly .ci/run .ci/try-deb .ci/try-wheel fuzz/run.sh core/src/tune/collect.sh \
                 $(addprefix packaging/,mips/libc debian/build debian/postinst debian/postrm debian/prerm openwrt/files/narrows.init openwrt/files/narrows.defaults)
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := $(firstword $(wildcard $(TARGET)/bin/actionlint) $(shell command -v actionlint))
actionlint: ## Build the check of the workflows in .github, for make lint; needs Go
	GOBIN=$(TARGET)/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

# core is also built without an operating system if this target is installed.
lint: setup ## Check style, types, layers, sizes, lints and prose; changes nothing
	cd python && ../$(BIN)/ruff check . && ../$(BIN)/ruff format --check . && ../$(BIN)/mypy narrows
	$(BIN)/ruff check validation bench tools && $(BIN)/ruff format --check validation bench tools
	$(BIN)/mypy --config-file python/pyproject.toml --python-version 3.11 validation tools
	# The simulator runs on Windows, too: no other module uses what Windows lacks.
	cd python && ../$(BIN)/mypy --platform win32 --follow-imports silent --no-warn-unreachable --no-warn-unused-ignores \
	  --exclude 'narrows/((kernel|tune)/|conform/rival\.py)' narrows
	$(BIN)/python -m tools.layers
	$(BIN)/python -m tools.sizes
	$(BIN)/python -m tools.prose
	cargo fmt --all --check
	$(AS_MATURIN) cargo clippy --locked --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --release --no-deps $(PUBLISHED)
	@$(if $(NODE),$(MAKE) lint-web,echo 'report page: not compared with a fresh build, because Node 20.19 or newer with npm is missing')
	@if [ -d "$$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-none" ]; then \
	  cargo check --release --package narrows-core --target x86_64-unknown-none; \
	else echo 'core without an operating system: skipped, because the target x86_64-unknown-none is not installed'; fi
	@if command -v shellcheck > /dev/null; then shellcheck --severity warning $(SHELL_SCRIPTS); \
	else echo 'shell scripts: not checked, because shellcheck is missing (apt-get install shellcheck)'; fi
	@if [ -n "$(ACTIONLINT)" ]; then "$(ACTIONLINT)"; \
	else echo 'workflows: not checked, because actionlint is missing (go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION))'; fi

# The page in the package must be the build of its sources.
lint-web: web/node_modules/.installed
	cd web && npx tsc --noEmit && npx tsc --noEmit --project lab
	cd web && NARROWS_PAGES=$(TARGET)/pages npx vite build --logLevel warn
	cmp $(TARGET)/pages/report.html python/narrows/pages/report.html || { echo 'python/narrows/pages/report.html is out of date: run make web'; exit 1; }

validate: setup ## Run the statistical tier: Linux, published maps, BBR's cliff; writes validation/REPORT.md
	$(BIN)/python -m validation
	$(BIN)/python -m validation.wifi
	@$(MAKE) coverage
	@$(MAKE) fuzz

coverage: setup ## Count how often confidence intervals contain the mean, ten minutes; writes docs/reference/coverage.md
	$(BIN)/python -m validation.coverage

FUZZ_SECONDS ?= 10
fuzz: ## Fuzz every parser of untrusted input, FUZZ_SECONDS each [default: 10]; needs nightly Rust and cargo-fuzz
	fuzz/run.sh $(FUZZ_SECONDS)

# AddressSanitizer works with the standard library of the toolchain; ThreadSanitizer needs an instrumented one.
# The compiler of documentation tests reads RUSTDOCFLAGS, not RUSTFLAGS.
SANITIZED := --package narrows-host --target $(shell uname -m)-unknown-linux-gnu --target-dir $(TARGET)/sanitized
NIGHTLY = @rustup run nightly rustc --version > /dev/null 2>&1 || { \
  echo '$@ needs the nightly toolchain of Rust: install it with rustup toolchain install nightly.' >&2; exit 2; }
asan: ## Test narrows-host under AddressSanitizer; needs nightly Rust
	$(NIGHTLY)
	RUSTFLAGS=-Zsanitizer=address RUSTDOCFLAGS=-Zsanitizer=address cargo +nightly test --locked $(SANITIZED)

tsan: ## Test narrows-host under ThreadSanitizer; needs nightly Rust with rust-src
	$(NIGHTLY)
	@if [ -d "$$(rustc +nightly --print sysroot)/lib/rustlib/src" ]; then \
	  RUSTFLAGS=-Zsanitizer=thread RUSTDOCFLAGS=-Zsanitizer=thread cargo +nightly test --locked -Zbuild-std $(SANITIZED); \
	else echo 'tsan: skipped: it needs rust-src (rustup component add rust-src --toolchain nightly)'; fi

# A copy without history, so that a patch cannot reach the checkout; built without optimization.
ADDED := $(TARGET)/additions
additions: $(VENV)/.tools ## Apply the sample patches of CONTRIBUTING.md to a copy, build it and run its tests
	rm -rf $(ADDED) && mkdir -p $(ADDED)
	git ls-files -z Cargo.toml Cargo.lock endpoint core plugin sim host bench lab python scenarios tools | xargs -0 cp --parents -t $(ADDED)
	for patch in python/tests/patches/*.patch; do \
	  (cd $(ADDED) && GIT_CEILING_DIRECTORIES=$(TARGET) git apply $(CURDIR)/$$patch) || exit 1; done
	cd $(ADDED) && export CARGO_TARGET_DIR=$(TARGET)/additions-build \
	  && cargo test --quiet --locked --package narrows-core --lib queue::blue \
	  && cargo build --quiet --locked --package narrows-host \
	  && install -D -s $(TARGET)/additions-build/debug/narrows-host python/narrows/bin/narrows-host \
	  && $(CURDIR)/$(BIN)/maturin build --quiet --locked --manifest-path python/bindings/Cargo.toml --interpreter $(CURDIR)/$(BIN)/python --out wheels
	$(BIN)/python -m pip install --quiet --no-deps --target $(ADDED)/installed $(ADDED)/wheels/narrows-*.whl
	cd $(ADDED)/python && PYTHONPATH=$(ADDED)/installed $(CURDIR)/$(BIN)/pytest -q -rs tests/patches/check.py tests/test_hello.py
	cd $(ADDED)/python && PYTHONPATH=$(ADDED)/installed NARROWS_GOLDEN=write $(CURDIR)/$(BIN)/pytest -q tests/test_schema.py tests/test_layers.py
	cd $(ADDED)/python && $(CURDIR)/$(BIN)/ruff check --quiet narrows tests && $(CURDIR)/$(BIN)/ruff format --quiet --check narrows tests

# The extension on the systems that only simulate. It cannot be run here, so nothing is linked.
SIMULATING := x86_64-pc-windows-gnu aarch64-apple-darwin
platforms: ## Check that the simulator compiles for Windows and macOS; needs both targets of Rust
	@for target in $(SIMULATING); do \
	  if [ -d "$$(rustc --print sysroot)/lib/rustlib/$$target" ]; then \
	    PYO3_NO_PYTHON=1 cargo check --locked --package narrows-bindings --target $$target --target-dir $(TARGET)/platforms; \
	  else echo "platforms: skipped: it needs rustup target add $(SIMULATING)"; fi; done

# The version of Rust in Cargo.toml, which the default toolchain may exceed.
OLDEST_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
oldest-rust: ## Check that the code compiles with the oldest supported Rust; needs its toolchain
	@if rustup run $(OLDEST_RUST) rustc --version > /dev/null 2>&1; then \
	  cargo +$(OLDEST_RUST) check --locked --release $(PUBLISHED) --target-dir $(TARGET)/oldest-rust; \
	else echo 'oldest-rust: skipped: it needs rustup toolchain install $(OLDEST_RUST)'; fi

deny: ## Check licences, bans, sources and advisories of all Rust dependencies; needs cargo-deny
	@if ! command -v cargo-deny > /dev/null; then \
	  echo 'deny: skipped: it needs cargo-deny (cargo install cargo-deny --locked)'; \
	else cargo deny --locked --offline check bans licenses sources \
	  && if cargo deny fetch db > /dev/null 2>&1; then cargo deny --locked --offline check advisories; \
	  else echo 'deny: skipped: the advisory database cannot be fetched; bans, licences and sources passed'; fi; fi

NIGHTLY_FUZZ_SECONDS ?= 3600
nightly: setup ## Run long checks: sample patches, an hour of fuzzing, sanitizers, advisories; writes validation/nightly.txt
	.ci/nightly $(NIGHTLY_FUZZ_SECONDS)

optimized: setup ## Replace the installed package by that of a release: the same results in three quarters of the time
	$(BIN)/python -m tools.optimized $(TARGET)/optimized-wheel/wheel
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall $(TARGET)/optimized-wheel/wheel/*.whl

sdist: setup ## Build the source distribution in target/dist
	mkdir -p $(DIST)
	cd python && ../$(BIN)/python -c 'import build_backend; build_backend.build_sdist("$(DIST)")'

dist: setup ## Build the files of a release in target/dist: wheel, source distribution, checksums
	rm -rf $(DIST) && mkdir -p $(DIST)
	$(BIN)/python -m tools.optimized $(DIST)
	@$(MAKE) sdist
	$(BIN)/python -m tools.manylinux $(DIST)/*.whl
	cd $(DIST) && sha256sum * > SHA256SUMS

wheel-aarch64: setup ## Build the wheel for 64-bit ARM in target/dist; needs gcc-aarch64-linux-gnu and the target aarch64-unknown-linux-gnu
	mkdir -p $(DIST)
	cargo build --quiet --locked --release --package narrows-host --bin narrows-host --target aarch64-unknown-linux-gnu
	install -D -s --strip-program=aarch64-linux-gnu-strip $(TARGET)/aarch64-unknown-linux-gnu/release/narrows-host python/narrows/bin/narrows-host
	$(BIN)/maturin build --quiet --locked --release --target aarch64-unknown-linux-gnu --manifest-path python/bindings/Cargo.toml \
	  --interpreter $(BIN)/python --out $(DIST)
	install -D -s $(TARGET)/release/narrows-host python/narrows/bin/narrows-host
	$(BIN)/python -m tools.manylinux $(DIST)/*_aarch64.whl

try-wheel: setup ## Install the wheel where nothing but Python is, and run a scenario; needs root and debootstrap
	.ci/try-wheel $(TARGET)/wheels/narrows-*.whl

# Cargo's own check: each crate is built from its archive, as if the crates before it were published.
crates: ## Build each crate to publish from its archive; needs cargo 1.90
	cargo package --quiet --locked --target-dir $(TARGET)/crates $(PUBLISHED)
	! tar tzf $(TARGET)/crates/package/narrows-core-*.crate | grep '^[^/]*/tests/'

try-sdist: sdist ## Build and install the source distribution in an empty environment; needs Rust
	rm -rf $(TARGET)/try-sdist && $(BIN)/python -m venv $(TARGET)/try-sdist
	CARGO_TARGET_DIR=$(TARGET) $(TARGET)/try-sdist/bin/pip install --quiet $(DIST)/narrows-*.tar.gz
	$(TARGET)/try-sdist/bin/narrows run scenarios/first/cubic.toml
	$(TARGET)/try-sdist/bin/python -c 'from narrows.host.live import HOST; assert HOST.exists()'

lock: $(VENV)/.tools ## Record the hashes of the Python packages that python/requirements*.txt name; needs uv
	for file in python/requirements*.txt; do \
	  { echo "# Generated by \`make lock\` from $$file: every file of each pinned version, by its hash."; \
	    uv pip compile $$file --generate-hashes --no-deps --no-annotate --no-header --python-version 3.11 --quiet; \
	  } > python/locked/$$(basename $$file); done

reproduce: setup ## Reproduce published experiments, five minutes; writes docs/reference/reproduced.md with explanations
	$(BIN)/narrows reproduce --all --into $(TARGET)/reproduced --markdown docs/reference/reproduced.md
	$(BIN)/python -m validation.reproduced

sources: setup ## Measure on this machine, seven minutes, and write docs/reference/sources.md from stored results
	$(BIN)/python -m validation.sources --measure

mutations: setup ## Remove every listed rule and run the tests; writes docs/reference/mutations.md
	$(BIN)/python -m validation.mutations

agree: setup ## Compare the simulator with the TCP of this machine, half an hour; writes docs/reference/agreement.md
	$(BIN)/python -m validation.agreement

path-models: setup ## Compare path models with known simulated and emulated paths, 100 minutes; writes docs/reference/path-models*.md
	$(BIN)/python -m validation.path_models
	$(BIN)/python -m validation.path_models_live
	$(BIN)/python -m validation.path_models_shared

twin: path-models

advice: setup ## Compare recommendations with later results of Linux, ten minutes; continues after an interruption
	$(BIN)/python -m validation.advise

bench: setup ## Measure the simulator: scoreboard, 1 to 10 000 flows, instructions of the whole process
	cargo bench --package narrows-bench
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/threads.py
	$(BIN)/python bench/process.py
	$(BIN)/python bench/congestion_controls.py
	$(BIN)/python bench/sweep.py

bench-live: setup ## Measure the highest rate of the live engine, and the load generator beside iperf3; four minutes
	$(BIN)/python bench/live.py
	$(BIN)/python bench/bulk.py

HTSIM ?=
bench-peers: ## Measure ns-3 and htsim beside narrows; HTSIM is the folder of libhtsim.a
	@[ -n "$(PYTHON)" ] || { echo 'make bench-peers needs Python 3.11 or newer'; exit 1; }
	$(PYTHON) bench/peers/run.py $(HTSIM:%=--htsim %)

clean: ## Remove everything that is not in a fresh checkout
	cargo clean --quiet
	rm -rf $(VENV) python/narrows/bin python/narrows/lab web/node_modules .mypy_cache .ruff_cache .pytest_cache validation/.ruff_cache python/.mypy_cache python/.ruff_cache python/.hypothesis
	find python validation -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup adapters static lab test-lab router routers deb try-deb optimized dist sdist crates wheel-aarch64 try-wheel try-sdist demo kernel docs ray frames web test renew renew-pages test-physical lint lint-web validate coverage reproduce sources additions fuzz asan tsan deny nightly lock platforms oldest-rust actionlint mutations agree path-models twin advice bench bench-live bench-peers clean
