# The front door. `make help` lists what there is.
BUILD   ?= build
CONFIG  ?= examples/gateway.yaml
JOBS    ?= $(shell nproc)
PREFIX  ?= /usr/local
SECONDS_EACH ?= 20
UNITY   ?= ON
WERROR  ?=
VERSION = $(shell sed -n 's/^project.millrace VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

CONFIGURE = cmake -G Ninja -DCMAKE_BUILD_TYPE=$(1) -DMILLRACE_UNITY=$(UNITY) $(WERROR:%=-DMILLRACE_WERROR=%) -S . -B
CTEST     = ctest --output-on-failure --no-tests=error
JUNIT     = --output-junit $(abspath $(BUILD))/$(1).xml \
            --test-output-size-passed 4194304 --test-output-size-failed 4194304
# DPDK and Hyperscan keep what they allocate until the program ends.
SANITIZER_OPTIONS = ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1 \
                    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
                    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$(CURDIR)/tests/tsan.supp

# NVRTC from the Python environment that `make setup` makes. The program itself never looks there.
# Asked of the shell for each recipe: make would remember that the folder was not there before `setup`.
export MILLRACE_CUDA ?= \
    $(shell ls -d $(CURDIR)/.venv/lib/python3*/site-packages/nvidia/cu13/lib 2>/dev/null | head -n 1)

.PHONY: help setup packages build run built-tests test sanitize tsan fuzz portable gpu-test bench docs install clean
.DEFAULT_GOAL := help

help:      ## list these commands
	@sed -n 's/^\([a-z-]*\): .*## /  make \1 \t/p' $(MAKEFILE_LIST) | expand -t 20

setup: packages ## install what build and tests need (Debian 12, Ubuntu 24.04)
	@scripts/setup

packages: # what the build needs
	@scripts/setup build
	@chmod 600 examples/ipsec-keys.yaml  # git keeps no such mode

build: packages ## build the program into build/
	@$(call CONFIGURE,Release) $(BUILD) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target millrace-cli

run: build ## run the example chain over the recorded traffic; CONFIG=file.yaml runs another one
	@$(BUILD)/millrace run $(CONFIG)

# What tests run is fetched while they are compiled. A target of its own: make expands a whole recipe, and with it where
# NVRTC is, before it runs the first line.
built-tests: packages
	@$(call CONFIGURE,Release) $(BUILD) > /dev/null
	@scripts/setup > $(BUILD)/setup.log 2>&1 & rest=$$!; built=0; \
	    cmake --build $(BUILD) -j $(JOBS) || built=$$?; \
	    wait $$rest || built=$$?; cat $(BUILD)/setup.log; exit $$built

# Two more tests at a time than there are cores: two of networks may run at once, and mostly wait. A test that failed is
# tried again by itself: on a busy machine some are late. The last lines name those that passed only then.
test: built-tests ## build and pass every test
	@[ -n "$$MILLRACE_CUDA$$MILLRACE_NO_CUDA" ] || \
	    { echo "make test: NVRTC is not where 'make setup' puts it" >&2; exit 1; }
	@passed=0; again=; \
	    $(CTEST) --test-dir $(BUILD) --timeout 600 -j $$(($(JOBS) + 2)) $(call JUNIT,tests) || passed=$$?; \
	    if [ $$passed != 0 ]; then \
	        echo "What failed runs once more, one test at a time."; again=$(BUILD)/again.xml; passed=0; \
	        $(CTEST) --test-dir $(BUILD) --timeout 600 --rerun-failed -j 1 $(call JUNIT,again) || passed=$$?; \
	    fi; \
	    /usr/bin/python3 tests/summary.py $(BUILD)/tests.xml $$again; exit $$passed

sanitize: setup ## pass every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call CONFIGURE,RelWithDebInfo) build-asan -DMILLRACE_SANITIZE=address,undefined > /dev/null
	@cmake --build build-asan -j $(JOBS)
	@$(SANITIZER_OPTIONS) $(CTEST) --test-dir build-asan --timeout 1200 -j $(JOBS)

tsan: setup ## pass every test under ThreadSanitizer
	@$(call CONFIGURE,RelWithDebInfo) build-tsan -DMILLRACE_SANITIZE=thread > /dev/null
	@cmake --build build-tsan -j $(JOBS)
	@$(SANITIZER_OPTIONS) $(CTEST) --test-dir build-tsan --timeout 1200 -j $(JOBS)

fuzz: setup ## run every fuzzer for SECONDS_EACH (20) seconds
	@scripts/setup fuzz
	@scripts/fuzz build-fuzz $(SECONDS_EACH) $(JOBS)

portable: setup ## a tarball with program, tests and benchmarks for machines with nothing installed: build-portable/
	@$(call CONFIGURE,Release) build-portable -DMILLRACE_PORTABLE=ON > /dev/null
	@cmake --build build-portable -j $(JOBS)
	@scripts/portable build-portable $(VERSION)

gpu-test: ## pass the tests on this machine's GPU; ARGUMENTS="--sanitizer" or "--soak 480" for those
	@scripts/gpu-test $(ARGUMENTS)

bench: setup ## measure what the framework costs against a bare loop; figures go to docs/benchmarks/
	@$(call CONFIGURE,Release) $(BUILD) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target framework_bench
	@taskset -c $$(($$(nproc) - 1)) $(BUILD)/benchmarks/framework_bench --json docs/benchmarks/framework.json
	@/usr/bin/python3 docs/benchmarks/plot.py docs/benchmarks/framework.json docs/benchmarks/framework.svg

docs: setup ## draw the pictures of docs/ anew and check every link
	@/usr/bin/python3 docs/pictures/draw.py docs/pictures
	@/usr/bin/python3 tests/tree/links.py .

install: build ## install to PREFIX (/usr/local); packagers set DESTDIR
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:     ## remove what was built, but not what was installed
	@rm -rf build build-asan build-tsan build-fuzz build-portable gpu-data out
