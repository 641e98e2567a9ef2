# Everything lands in target/, .venv*/, .tools/, .go/ and .garage/, all ignored by git.

PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),target)
DEBUG  := $(TARGET)/debug
DEMO   := $(TARGET)/demo
STAMP  := .venv/interop.stamp
HEAVY  := .venv/interop-heavy.stamp
READERS := .venv-torch/readers.stamp
TYPOS  := .tools/bin/typos
MATURIN := .tools/bin/maturin
DENY   := .tools/bin/cargo-deny
GARAGE := $(or $(GARAGE_BIN),.garage/bin/garage)
MINIO  := $(or $(MINIO_BIN),.go/bin/minio)
GO     := $(or $(shell command -v go),/usr/local/go/bin/go)
# A test that hangs ends the run instead of blocking it.
LIMIT  := timeout --foreground $(or $(TEST_SECONDS),3600)
PROGRAMS := SHARDPACK_BIN=$(DEBUG)/shardpack IMAGEFOLDER_BIN=$(DEBUG)/imagefolder \
            S3_SERVER_BIN=$(DEBUG)/s3_server SHARDPACK_WHEEL='$(TARGET)/wheels/dev/shardpack-*.whl'
PYTEST := $(PROGRAMS) $(LIMIT) .venv/bin/python -m pytest
# What finds most mistakes in least time.
QUICK  := cli:: formats:: layers:: manifest:: plan:: resume:: scan:: verify::

.DEFAULT_GOAL := help
.PHONY: help build programs demo test quick model exhaustive check features deny bench scale batch interop run-interop run-batch interop-heavy interop-all readers minio soak fuzz static wheel wheel-dev clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the release binary, target/release/shardpack
	SHARDPACK_COMMIT=$$(git rev-parse --short=12 HEAD 2>/dev/null) cargo build --release

# The demo, the tests and a plain `cargo build` share what is compiled here.
programs:
	cargo build --workspace --bins

demo: ## turn a small picture tree into shards, verify them, look inside
	cargo build --bins -p shardpack -p imagefolder
	@rm -rf $(DEMO)
	$(DEBUG)/imagefolder $(DEMO)/images
	$(DEBUG)/shardpack convert $(DEMO)/images $(DEMO)/shards --shard-size 8MB
	$(DEBUG)/shardpack verify $(DEMO)/shards --level data
	$(DEBUG)/shardpack verify $(DEMO)/shards --level source --source $(DEMO)/images
	$(DEBUG)/shardpack inspect $(DEMO)/shards
	@echo; echo "What is there now:"; find $(DEMO)/shards | sort | sed 's/^/  /'
	@echo; echo "Read it with Python (pip install . webdataset):"; echo
	@echo '  import shardpack, webdataset'
	@echo '  shards = shardpack.Dataset("$(DEMO)/shards").shards("train")'
	@echo '  for image, label in webdataset.WebDataset(shards, shardshuffle=100).shuffle(1000).to_tuple("jpg", "cls"):'
	@echo '      print(len(image), int(label))'

test: ## run every test: Rust, thread schedules, the Python readers, the batch templates
	$(LIMIT) cargo test
	@$(MAKE) --no-print-directory $(STAMP) programs wheel-dev
	@echo "thread schedules, readers and templates, all at once: each prints what it has to say when it ends"
	@$(MAKE) --no-print-directory -j3 --output-sync=target model run-interop run-batch

quick: ## the tests that find most mistakes, in two minutes after a build
	$(LIMIT) cargo test --lib -- --skip crash::
	$(LIMIT) cargo test --test it -- $(QUICK)

# `make test` tries one in twenty of these.
exhaustive: ## runs that end at any point, in every way (most of an hour)
	SHARDPACK_EVERY=1 cargo test --lib -- --nocapture crash::

model: ## the seam between threads under thousands of schedules (10 seconds); SHARDPACK_SCHEDULES=200000 make model
	$(LIMIT) cargo test -q --manifest-path tests/model/Cargo.toml --target-dir $(TARGET)/model

check: $(TYPOS) ## formatting, lints and documentation, warnings denied; spelling
	cargo fmt --all --check
	cargo fmt --check --manifest-path tests/model/Cargo.toml
	cargo fmt --check --manifest-path tests/fuzz/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --lib
	@if [ -x $(TYPOS) ]; then $(TYPOS); else echo "spelling was not checked: typos could not be installed"; fi
	@if [ -x $(DENY) ]; then $(DENY) check licenses bans sources; else echo "licences were not checked: make deny installs cargo-deny first"; fi

# A build without any of them, and one with each alone.
features: ## compile the program with every set of features that somebody may want
	for set in "" s3 decode energon-sqlite; do \
	   RUSTFLAGS="-D warnings" cargo check -q --no-default-features --features "$$set" --target-dir $(TARGET)/features || exit 1; \
	 done

deny: ## licences, duplicates, origin and known weaknesses of the libraries (builds cargo-deny first, 5 minutes)
	@[ -x $(DENY) ] || cargo install cargo-deny --locked --root .tools
	$(DENY) check licenses bans sources
	$(DENY) check advisories || echo "advisories need their database, from GitHub"

interop: $(STAMP) programs wheel-dev ## read the shards with tarfile, GNU tar, webdataset, wids, tfrecord, HuggingFace, zstd, pyarrow, duckdb; S3 on moto
	@$(MAKE) --no-print-directory run-interop

batch: $(STAMP) programs ## run the templates of deploy/ on a small model of Argo, Kubernetes and SLURM, killing pods (2 minutes)
	@$(MAKE) --no-print-directory run-batch

# With everything built that these need: nothing is built while others run it.
run-interop:
	$(PYTEST) -m "not garage and not minio" tests/interop --ignore tests/interop/heavy --ignore tests/interop/readers

run-batch:
	$(PYTEST) tests/deploy

interop-heavy: $(HEAVY) programs ## read them with TensorFlow and TFDS (the first time 330 MB are downloaded)
	$(PYTEST) tests/interop/heavy

interop-all: $(HEAVY) programs wheel-dev $(GARAGE) ## all of these, and S3 on Garage (the first time it is built here: 12 minutes)
	GARAGE_BIN=$(GARAGE) $(PYTEST) -m "not minio" tests/interop --ignore tests/interop/readers

readers: $(READERS) programs ## read them in the world of torch: webdataset, wids, timm, OpenCLIP, energon, DALI, HuggingFace, Ray, Daft, Lance, grain (3 GB to download, 4 minutes)
	$(PROGRAMS) $(LIMIT) .venv-torch/bin/python -m pytest tests/interop/test_docs.py tests/interop/readers --ignore tests/interop/readers/test_openclip.py
	PYTHONPATH=.venv-torch/openclip $(PROGRAMS) $(LIMIT) .venv-torch/bin/python -m pytest tests/interop/readers/test_openclip.py

minio: $(STAMP) programs $(MINIO) ## S3 on MinIO, plain and under TLS (the first time it is built here with Go 1.26, 8 minutes of processor time)
	MINIO_BIN=$(MINIO) $(PYTEST) -m minio tests/interop/test_s3.py tests/interop/test_s3_servers.py

bench: $(HEAVY) ## compare with tar, ShardWriter and the bare minimum (needs 10 GB, several minutes)
	cargo build --release -p shardpack -p imagefolder --bins
	cargo bench --bench compare

scale: ## what planning and publishing cost for 10 million samples (needs 4 GB of memory, 2 GB of disk, a few minutes)
	cargo test --release --lib -- --ignored --exact --nocapture testing::scale::what_millions_of_samples_cost

# Each pass has seeds of its own; one that fails is tried again with SHARDPACK_SEED=N.
soak: exhaustive ## all of these once, then chaos, kills and writers at once with ever new seeds, for SOAK_MINUTES (30)
	@end=$$(( $$(date +%s) + 60 * $${SOAK_MINUTES:-30} )); seed=$${SOAK_SEED:-$$(date +%s)}; passes=0; \
	 while [ $$(date +%s) -lt $$end ]; do \
	   echo "seeds from $$seed"; \
	   export SHARDPACK_SEED=$$seed SHARDPACK_SEEDS=300 SHARDPACK_ROUNDS=200 SHARDPACK_KILLS=80 SHARDPACK_MUTATIONS=30000 SHARDPACK_EVERY=1; \
	   cargo test -q --lib -- --nocapture crash::chaos crash::together || exit 1; \
	   cargo test -q --test it -- --nocapture kill:: mutations::every || exit 1; \
	   seed=$$(( seed + 300 )); passes=$$(( passes + 1 )); \
	 done; echo "$$passes passes without a failure"

# Instrumented by the stable compiler; there is next to no unsafe code that an address sanitizer could watch. New inputs are kept below
# target/, those worth keeping for ever in tests/fuzz/corpus. FUZZ_ONLY=index,plan for some of the targets.
FUZZ_HOST  := $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS := --cfg fuzzing -C passes=sancov-module $(addprefix -C llvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_BINS  := $(TARGET)/fuzz/$(FUZZ_HOST)/release
comma      := ,
FUZZ_NAMES := $(if $(FUZZ_ONLY),$(subst $(comma), ,$(FUZZ_ONLY)),$(basename $(notdir $(wildcard tests/fuzz/fuzz_targets/*.rs))))

fuzz: ## ever new bytes for whatever reads those of others, FUZZ_SECONDS (60) a target; builds for some minutes the first time
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --manifest-path tests/fuzz/Cargo.toml --target $(FUZZ_HOST) --target-dir $(TARGET)/fuzz
	@for name in $(FUZZ_NAMES); do \
	   new=$(TARGET)/fuzz/corpus/$$name; mkdir -p $$new $(TARGET)/fuzz/found; echo "$$name, $${FUZZ_SECONDS:-60} s"; \
	   $(FUZZ_BINS)/$$name -max_total_time=$${FUZZ_SECONDS:-60} -timeout=20 -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1 \
	      -verbosity=0 -artifact_prefix=$(TARGET)/fuzz/found/$$name- $$new tests/fuzz/corpus/$$name || exit 1; \
	 done

# As the Dockerfile does it, in a directory of its own.
STATIC_TARGET := x86_64-unknown-linux-gnu
static: ## build the binary of the container image, which needs nothing else (6 minutes)
	SHARDPACK_COMMIT=$$(git rev-parse --short=12 HEAD) RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols" \
	    cargo build --release --locked --bin shardpack --target $(STATIC_TARGET) --target-dir $(TARGET)/static

# What maturin finds there goes into the wheel, as data; without it the wheel has the program and the module alone.
SHARE := shardpack.data/data/share
define share
	@rm -rf shardpack.data && mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(1) man -q $(SHARE)/man/man1
	$(1) completions bash > $(SHARE)/bash-completion/completions/shardpack
	$(1) completions zsh > $(SHARE)/zsh/site-functions/_shardpack
	$(1) completions fish > $(SHARE)/fish/vendor_completions.d/shardpack.fish
endef

# With the binary of `make static`, which needs no library: one wheel for every Linux that pip knows, and maturin looks whether that is so.
wheel: static $(MATURIN) ## build the Python wheel, target/wheels/shardpack-*.whl (6 minutes)
	$(call share,$(TARGET)/static/$(STATIC_TARGET)/release/shardpack)
	SHARDPACK_COMMIT=$$(git rev-parse --short=12 HEAD) RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols" \
	    $(MATURIN) build --release --locked --compatibility manylinux2014 --target $(STATIC_TARGET) --target-dir $(TARGET)/static -o $(TARGET)/wheels
	@rm -rf shardpack.data

# The same of the binary that the tests run.
wheel-dev: programs $(MATURIN)
	$(call share,$(DEBUG)/shardpack)
	$(MATURIN) build -q --profile dev --compatibility linux --target-dir $(TARGET) -o $(TARGET)/wheels/dev
	@rm -rf shardpack.data

clean: ## remove everything that was built, made or installed here
	rm -rf $(TARGET) .venv .venv-torch .venv-peers .tools .go .garage .pytest_cache tests/__pycache__ tests/*/__pycache__ tests/*/*/__pycache__

# A word that is spelled wrongly is found everywhere but where a machine has no way to the tool.
$(TYPOS):
	@$(PYTHON) -m venv .tools && .tools/bin/pip install -q typos==1.52.0 || echo "typos could not be installed"

$(MATURIN): pyproject.toml tests/interop/make_venv
	PYTHON=$(PYTHON) tests/interop/make_venv .tools wheel
	@touch $@

$(STAMP): pyproject.toml tests/interop/make_venv
	PYTHON=$(PYTHON) tests/interop/make_venv .venv interop
	@touch $@

$(HEAVY): $(STAMP)
	PYTHON=$(PYTHON) tests/interop/make_venv .venv interop interop-heavy
	@touch $@

# Packages that want an older webdataset than the others have it apart.
$(READERS): pyproject.toml tests/interop/make_venv
	PYTHON=$(PYTHON) tests/interop/make_venv .venv-peers peers
	PYTHON=$(PYTHON) tests/interop/make_venv .venv-torch readers
	.venv-torch/bin/pip install --quiet --upgrade --no-deps --target .venv-torch/openclip webdataset==0.2.86
	@touch $@

# What Go fetches and compiles on the way is below .go too, and may be removed afterwards.
.go/bin/minio:
	GOPATH=$(CURDIR)/.go GOCACHE=$(CURDIR)/.go/cache GOFLAGS=-modcacherw $(GO) install -ldflags '-s -w' \
	    github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c

# In a target directory of its own, which cargo removes: nothing of it is shared with this project.
.garage/bin/garage:
	env -u CARGO_TARGET_DIR cargo install garage --version 2.5.0 --locked --root .garage
