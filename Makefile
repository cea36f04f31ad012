# Evenkeel: build, test, install. `make help` lists the targets; every setting below can be given on the command line.

VERSION  := 0.1.0
BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
CC       ?= gcc
PYTHON   ?= /usr/bin/python3
# Empty: warnings don't stop the build.
WERROR   ?= -Werror
# For example address,undefined (what `make asan` uses) or thread.
SANITIZE ?=

ifeq ($(origin CC),default)
CC := gcc
endif

PACKAGES := libevent_core libevent_extra libcares openssl yaml-0.1
# llhttp comes as C sources: Debian's node-llhttp.
LLHTTP_SOURCES ?= /usr/share/llhttp
LLHTTP_INCLUDE ?= /usr/share/include/llhttp

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
CFLAGS   ?= -O2 -g
LDFLAGS  ?=

supports = $(shell $(CC) -Werror $(1) -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(1))

ifeq ($(SANITIZE),)
HARDEN   := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong \
            $(call supports,-fstack-clash-protection) $(call supports,-fcf-protection)
HARDEN_LD :=
else
HARDEN   := -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -U_FORTIFY_SOURCE
HARDEN_LD := -fsanitize=$(SANITIZE)
endif

BASE_FLAGS := -std=gnu11 -D_GNU_SOURCE -DEVENKEEL_VERSION='"$(VERSION)"' -I. \
              -isystem $(LLHTTP_INCLUDE) -isystem $(dir $(patsubst %/,%,$(LLHTTP_INCLUDE))) \
              -fPIE $(HARDEN) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
ALL_CFLAGS  = $(BASE_FLAGS) $(WARNINGS) $(WERROR) $(CFLAGS) -MMD -MP
ALL_LDFLAGS = $(HARDEN_LD) -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed $(LDFLAGS)
LIBS        = $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm

MAIN     := proxy/main.c
SOURCES  := $(filter-out $(MAIN),$(sort $(wildcard config/*.c proxy/*.c proxy/*/*.c)))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)
LLHTTP   := $(BUILD)/llhttp/llhttp.o $(BUILD)/llhttp/http.o $(BUILD)/llhttp/api.o
LIBRARY  := $(BUILD)/libevenkeel.a
PROGRAM  := $(BUILD)/evenkeel

UNIT_TESTS   := $(sort $(wildcard tests/unit/test_*.c))
UNIT_HELPERS := $(filter-out $(UNIT_TESTS),$(sort $(wildcard tests/unit/*.c)))
UNIT_BINS    := $(UNIT_TESTS:%.c=$(BUILD)/%)
UNIT_HELPER_OBJECTS := $(UNIT_HELPERS:%.c=$(BUILD)/%.o)
FUZZERS      := $(sort $(wildcard tests/fuzz/fuzz_*.c))

PYTEST   ?= $(PYTHON) -m pytest -p no:cacheprovider
# `make test` and `make run` build on all cores, unless -j says how many.
PARALLEL  = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
# Further arguments for pytest: make e2e T='-k retry'
T        ?=

all: $(PROGRAM)  ## build the program: build/evenkeel (the default)

help:  ## this list
	@echo "usage: make [target] [BUILD=dir] [CC=gcc|clang] [WERROR=] [SANITIZE=address,undefined]"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- building ---------------------------------------------------------------------------------------------------

$(PROGRAM): $(BUILD)/$(MAIN:.c=.o) $(LIBRARY)
	@echo "  LINK  $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(LIBRARY): $(OBJECTS) $(LLHTTP)
	@echo "  AR    $@"
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/%.o: %.c $(BUILD)/flags | $(BUILD)/packages
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The page is part of the program (.incbin, which the compiler's own dependencies don't know of).
$(BUILD)/proxy/front/admin_pages.o: proxy/front/dashboard.html

# llhttp's generated code is not ours to warn about.
$(BUILD)/llhttp/%.o: $(LLHTTP_SOURCES)/%.c $(BUILD)/flags | $(BUILD)/packages
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) -w -I$(LLHTTP_INCLUDE) -fPIE $(HARDEN) $(CFLAGS) -c -o $@ $<

$(LLHTTP_SOURCES)/%.c: | $(BUILD)/packages ;

# Says what is missing before the compiler gets to complain about it.
$(BUILD)/packages:
	@mkdir -p $(@D)
	@CC='$(CC)' LLHTTP_SOURCES='$(LLHTTP_SOURCES)' LLHTTP_INCLUDE='$(LLHTTP_INCLUDE)' \
		tests/checks/build-packages.sh $(PACKAGES)
	@touch $@

# Everything is rebuilt when the compiler or its flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(CC) $(subst ','"'"',$(ALL_CFLAGS))' | cmp -s - $@ || \
		printf '%s\n' '$(CC) $(subst ','"'"',$(ALL_CFLAGS))' > $@

FORCE:

# --- testing ----------------------------------------------------------------------------------------------------

test: deps  ## install what the tests need, build, run the unit and end-to-end tests
	@$(MAKE) --no-print-directory $(PARALLEL) all unit-bins
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory e2e

unit-bins: $(UNIT_BINS)

unit: $(UNIT_BINS)  ## run the unit tests
	@tests/checks/run-unit.sh $(BUILD) $(UNIT_BINS)

$(BUILD)/tests/unit/test_%: $(BUILD)/tests/unit/test_%.o $(UNIT_HELPER_OBJECTS) $(LIBRARY)
	@echo "  LINK  $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

e2e: $(PROGRAM)  ## run the end-to-end tests; T='-k retry' picks some
	@EVENKEEL_BIN=$(abspath $(PROGRAM)) $(PYTEST) -q --junitxml=$(abspath $(BUILD))/e2e.xml $(T) tests/e2e

asan:  ## build with AddressSanitizer and UBSan in build/asan, run all tests with it
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' all unit-bins
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' unit
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' e2e

asan-build:  ## only build it
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' all

leak: asan-build  ## leak check (LeakSanitizer) of a run with traffic, cancels, reloads and drain
	@EVENKEEL_BIN=$(abspath $(BUILD))/asan/evenkeel $(PYTEST) -q $(T) tests/e2e/soak.py

valgrind: $(PROGRAM)  ## the same run under valgrind
	@EVENKEEL_BIN=$(abspath $(PROGRAM)) EVENKEEL_SLOWNESS=20 \
		EVENKEEL_WRAP='valgrind -q --leak-check=full --show-leak-kinds=definite,indirect,possible --error-exitcode=99' \
		$(PYTEST) -q $(T) tests/e2e/soak.py

layers:  ## check who may include what (the rooms of proxy/ call downwards only)
	@$(PYTHON) tests/checks/layers.py --build $(BUILD)

docs-check: $(PROGRAM)  ## check that key table, schema, man pages, example, completions, README and --help agree
	@$(PYTHON) tests/checks/docs.py --build $(BUILD)

bench: $(PROGRAM)  ## CPU time per request and throughput on loopback, beside other proxies that are installed
	@EVENKEEL_BIN=$(abspath $(PROGRAM)) $(PYTHON) tests/bench/bench.py $(T)

fuzz:  ## build the fuzzers with clang (run one: build/fuzz/fuzz_x -max_total_time=60)
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined fuzz-bins

fuzz-bins: $(FUZZERS:tests/fuzz/%.c=$(BUILD)/%)

$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBRARY)
	@echo "  LINK  $@"
	@$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

deps:  ## install the packages that building and testing need (apt-get)
	@tests/setup-packages.sh build test checks

run:  ## install what it needs, build, show the proxy mending a flaky origin, leave it running until Ctrl-C
	@tests/setup-packages.sh build demo
	@$(MAKE) --no-print-directory $(PARALLEL) all
	@EVENKEEL_BIN=$(abspath $(PROGRAM)) PYTHON=$(PYTHON) tests/demo/run.sh

ci:  ## everything that is checked before a change lands
	@.ci/run

# --- installing -------------------------------------------------------------------------------------------------

MAN_PAGES := $(wildcard config/man/*.[1-8])
# Where each shell looks for them, below PREFIX.
COMPLETIONS := evenkeel.bash:bash-completion/completions/evenkeel _evenkeel:zsh/site-functions/_evenkeel \
               evenkeel.fish:fish/vendor_completions.d/evenkeel.fish

install: $(PROGRAM)  ## install under DESTDIR and PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/evenkeel
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/evenkeel
	install -m 644 $(wildcard LICENSE README.md policies.example.yaml) $(DESTDIR)$(PREFIX)/share/doc/evenkeel
	set -e; for page in $(MAN_PAGES); do \
		section=man$${page##*.}; \
		install -d $(DESTDIR)$(PREFIX)/share/man/$$section; \
		install -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/$$section/; \
	done
	set -e; for pair in $(COMPLETIONS); do \
		install -D -m 644 config/completions/$${pair%%:*} $(DESTDIR)$(PREFIX)/share/$${pair##*:}; \
	done

uninstall:  ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/evenkeel
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/evenkeel
	set -e; for page in $(notdir $(MAN_PAGES)); do rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$page; done
	set -e; for pair in $(COMPLETIONS); do rm -f $(DESTDIR)$(PREFIX)/share/$${pair##*:}; done

dist:  ## a source archive of the last commit: build/evenkeel-VERSION.tar.gz
	@mkdir -p $(BUILD)
	git archive --format=tar.gz --prefix=evenkeel-$(VERSION)/ -o $(BUILD)/evenkeel-$(VERSION).tar.gz HEAD
	@echo $(BUILD)/evenkeel-$(VERSION).tar.gz

deb:  ## a Debian package of the last commit, in build/deb
	@docker/debian/build.sh $(abspath $(BUILD)) $(VERSION)

clean:  ## remove the build folder
	rm -rf $(BUILD)

.PHONY: all help test unit unit-bins e2e asan asan-build leak valgrind layers docs-check bench fuzz fuzz-bins deps run ci \
	install uninstall dist deb clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:

-include $(OBJECTS:.o=.d) $(BUILD)/$(MAIN:.c=.d) $(UNIT_TESTS:%.c=$(BUILD)/%.d) $(UNIT_HELPERS:%.c=$(BUILD)/%.d)
