# pawl's front door. `make help` lists the targets; CMake and Ninja do the work in build/.
# A fresh machine needs `make demo` (build, then see it run) and `make check` (the same, and the tests).

BUILD := build
STAMP := $(BUILD)/.setup-stamp
JOBS  := $(shell nproc)
CTEST := ctest --output-on-failure --no-tests=error -j$(JOBS)

all: pawl

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

# The stamp holds the checksum of the package lists: when they change, ./setup looks for what is missing.
$(STAMP): packages/build packages/test setup
	@./setup

pawl: $(STAMP) ## build the command build/pawl and the library (the default)
	@ninja -C $(BUILD) pawl pawl_shared

build-all: $(STAMP)
	@ninja -C $(BUILD)

demo: pawl ## generate text with the demo model, drafting off and on
	@scripts/demo $(BUILD)/pawl models/tale-moe-fp8

check: build-all ## the tests
	@cd $(BUILD) && $(CTEST) -L check

check-all: build-all ## the tests and their long variants
	@cd $(BUILD) && $(CTEST) -LE soak

check-asan: $(STAMP) ## the tests under the address and undefined-behaviour sanitizers
	@cmake -G Ninja -S . -B build-asan -DPAWL_SANITIZE=address,undefined >/dev/null
	@ninja -C build-asan
	@cd build-asan && $(CTEST) -L check --timeout 1200

# Without the tests that only repeat the same steps for many texts: they are slow there and have no threads of their own.
check-tsan: $(STAMP) ## the tests under the thread sanitizer
	@cmake -G Ninja -S . -B build-tsan -DPAWL_SANITIZE=thread >/dev/null
	@ninja -C build-tsan
	@cd build-tsan && $(CTEST) -L check --timeout 1200 -E '^(eval|spec.equality|template_oracle|e2e.hostile)'

check-arm: $(STAMP) ## the kernels' tests built for 64-bit ARM, under an emulator
	@scripts/check-arm

soak: build-all ## ten minutes of mixed traffic on the server
	@cd $(BUILD) && ctest -V --no-tests=error -L soak

FUZZ_SECONDS := 60
fuzz: $(STAMP) ## every fuzz target for FUZZ_SECONDS (60); needs clang-14 and libclang-rt-14-dev
	@scripts/fuzz $(FUZZ_SECONDS)

bench: build-all ## speed and memory, with the share of this machine's limits
	@scripts/bench $(BUILD)

install: pawl ## install the command, the library, its header and its pkg-config file (PREFIX=/usr/local)
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

cuda: ## the CUDA plugin
	@echo "make cuda: there is no CUDA plugin yet. GPU kernels are known to the router (pawl explain --caps 'cuda cc=90')," \
	      "but none is built; everything runs on the CPU." >&2; exit 1

format: ## apply .clang-format
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

check-format:
	@scripts/check-format

clean: ## remove the build folders
	@rm -rf $(BUILD) build-asan build-tsan build-arm build-fuzz

.PHONY: all help pawl build-all demo check check-all check-asan check-tsan check-arm soak fuzz bench install cuda format check-format clean
