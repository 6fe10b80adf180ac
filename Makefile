# SPDX-License-Identifier: BSD-3-Clause
# Targets to set up, demonstrate, test, format and check datamover. All output is in .venv and build.
# Requires git, make, g++ 12 or newer, python3 3.11 or newer with venv.
#
# To use an MPI other than PyPI's mpich: make test MPICC=mpicc.openmpi VENV=.venv-openmpi

PYTHON ?= python3
VENV ?= .venv
MPICC ?=
FUZZ_SECONDS ?= 60
COVERAGE_LAYERS ?= unit,mpi,python
WHEEL_MPIS ?= mpich,openmpi,mpiabi
WHEELS ?= build/wheels
WHEEL_PYTHONS ?= $(PYTHON)
BUILD ?= build/$(patsubst .%,%,$(notdir $(VENV)))

BIN := $(VENV)/bin
WHEEL_MPICH ?= $(BIN)
MPIEXEC ?= $(if $(MPICC),$(subst mpicc,mpiexec,$(MPICC)),$(BIN)/mpiexec)
PIP := $(BIN)/python -m pip --disable-pip-version-check
CXX_FILES = git ls-files '*.hpp' '*.h' '*.cpp' '*.c'
unexport MPICXX MPI_HOME
# Python compiles what is imported, when it is; to compile all at once is most of pip's time.
export PIP_COMPILE = 0
# The programs of benchmarks and applications: a third of a build. Once built, they stay.
export DATAMOVER_BENCH ?= $(if $(wildcard $(BUILD)/bench),ON,OFF)
# Several sources at once; OFF is faster where one source is edited again and again.
export DATAMOVER_UNITY ?= ON

# What only make test needs, named with the packages of make demo so that an administrator is asked once.
TEST_PACKAGES := libgtest-dev libfftw3-dev libopenblas-serial-dev

.PHONY: help setup install demo test test-long test-build test-arm sanitize sanitize-build sanitize-threads fuzz \
    fuzz-build coverage bench docs wheel test-wheel dist deb deb-source format lint clean

help:
	@echo "make demo       set up and move a brain volume to Zarr chunks on 4 processes"
	@echo "make test       set up and run all tests;  make test-long: more random cases"
	@echo "make setup      virtual environment in $(VENV), MPI, build; after an edit: make install"
	@echo "make docs       the documents as a site with search, in build/site"
	@echo "make wheel      one wheel for every MPI, audited;  make test-wheel;  make dist: a release"
	@echo "make coverage   lines and branches that the tests reach;  make deb: Debian packages"
	@echo "make bench      the benchmarks;  make format, make lint, make clean"

setup: install
	@echo "datamover is installed: source $(BIN)/activate"

$(VENV)/.ready: pyproject.toml
	scripts/system-packages g++ python3-venv python3-dev --later $(TEST_PACKAGES)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --upgrade "pip>=25.1"
	$(PIP) install -q --group build $(if $(MPICC),,--group mpi)
	touch $@

# Compiles what has changed since the last time; the build directory stays.
install: $(VENV)/.ready
	@test -d $(BUILD) || echo "compiling: about three minutes on two cores the first time"
	@$(if $(MPICC),MPICC=$(MPICC),env -u MPICC) scripts/with-progress \
	    $(PIP) install -v --no-build-isolation -C build-dir=$(BUILD) '.[files,frames,plot]'

$(VENV)/.ready-%: $(VENV)/.ready
	$(PIP) install -q --group $*
	touch $@

demo: install $(VENV)/.ready-demo
	$(BIN)/python scripts/demo

test: test-build
	$(BIN)/python tests/run --build $(BUILD) --mpiexec $(MPIEXEC)

test-long: test-build
	$(MAKE) fuzz FUZZ_SECONDS=3600
	$(MAKE) sanitize-threads
	$(BIN)/python tests/run --build $(BUILD) --mpiexec $(MPIEXEC) --long

test-build bench: export DATAMOVER_BENCH = ON

test-build: $(VENV)/.ready-test
	scripts/system-packages $(TEST_PACKAGES)
	$(MAKE) install DATAMOVER_TESTS=ON

# The tests of C++ and those under MPI with the address and undefined sanitizers.
sanitize: sanitize-build
	.venv-sanitized/bin/python tests/run --build build/venv-sanitized \
	    --mpiexec .venv-sanitized/bin/mpiexec --layers unit,mpi --sanitized

sanitize-build:
	$(MAKE) test-build VENV=.venv-sanitized DATAMOVER_BENCH=OFF \
	    DATAMOVER_SANITIZE=address,undefined

# Lines and branches that the tests reach, in C++ and in Python; pages in build/reports/coverage.
coverage: export SKBUILD_CMAKE_ARGS = -DCMAKE_CXX_FLAGS=--coverage -fprofile-update=atomic;-DCMAKE_CXX_FLAGS_RELEASE=-O0
coverage: export COVERAGE_PROCESS_START = $(abspath pyproject.toml)
coverage: export COVERAGE_FILE = $(abspath build/coverage/python/data)
coverage: COVERAGE_BIN = .venv-coverage/bin
coverage:
	$(MAKE) test-build .venv-coverage/.ready-coverage VENV=.venv-coverage BUILD=build/coverage DATAMOVER_BENCH=OFF
	rm -rf build/coverage/python && mkdir -p build/coverage/python build/reports/coverage/cpp
	find build/coverage -name '*.gcda' -delete
	-$(COVERAGE_BIN)/python tests/run --build build/coverage --mpiexec $(COVERAGE_BIN)/mpiexec \
	    --layers $(COVERAGE_LAYERS)
	$(COVERAGE_BIN)/gcovr --filter src/ --filter include/ --filter bindings/ --exclude-throw-branches \
	    --gcov-ignore-parse-errors=all -j 2 --html-details build/reports/coverage/cpp/index.html --print-summary build/coverage
	-$(COVERAGE_BIN)/coverage combine -q && $(COVERAGE_BIN)/coverage html -q && $(COVERAGE_BIN)/coverage report --skip-covered
	@echo "pages: build/reports/coverage/cpp/index.html and build/reports/coverage/python/index.html"

# What threads do to each other, with the thread sanitizer, 20 times as long as in make test.
sanitize-threads: $(VENV)/.ready-test
	scripts/system-packages libgtest-dev
	$(BIN)/cmake -S . -B build/threads -G Ninja \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	    -DDATAMOVER_SANITIZE=thread -DDATAMOVER_UNITY=$(DATAMOVER_UNITY)
	$(BIN)/cmake --build build/threads --target mpi_threads mpi_threads_together
	$(BIN)/python tests/run --build build/threads --mpiexec $(MPIEXEC) --layers threads --long

# Fuzzers of what reads bytes, with Clang, each for FUZZ_SECONDS.
fuzz: fuzz-build
	$(BIN)/python tests/run --build build/fuzz --mpiexec $(MPIEXEC) --layers fuzz \
	    --fuzz-seconds $(FUZZ_SECONDS)

fuzz-build: $(VENV)/.ready-test
	scripts/system-packages clang libclang-rt-dev
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDATAMOVER_MPI=OFF \
	    -DDATAMOVER_SANITIZE=fuzzer-no-link,address,undefined -DDATAMOVER_UNITY=$(DATAMOVER_UNITY)
	$(BIN)/cmake --build build/fuzz

# The engine's unit tests for 64-bit ARM, cross-compiled and emulated. Two are left out, because qemu cannot set how
# TCP is paced.
test-arm: export QEMU_LD_PREFIX = /usr/aarch64-linux-gnu
test-arm: $(VENV)/.ready-test
	scripts/system-packages g++-aarch64-linux-gnu qemu-user-static libgtest-dev
	$(BIN)/cmake -S . -B build/arm -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
	    -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static \
	    -DCMAKE_FIND_ROOT_PATH=$$QEMU_LD_PREFIX -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
	    -DDATAMOVER_MPI=OFF -DDATAMOVER_TESTS=ON -DDATAMOVER_UNITY=$(DATAMOVER_UNITY)
	$(BIN)/cmake --build build/arm --target datamover_unit
	qemu-aarch64-static build/arm/tests/datamover_unit --gtest_brief=1 \
	    --gtest_filter=-StreamConnection.IsNotPacedBetweenEndsOfOneAddress:StreamConnection.BetweenOthersIsLeftAsItIs

# One wheel for MPICH, Open MPI and the standard's binary interface, in build/wheels. Each compiles the
# MPI part anew: WHEEL_MPIS=mpich,openmpi leaves the last out. PYTHON=python3.12 VENV=.venv-abi3 makes one for
# that version of Python and all later ones.
wheel: $(VENV)/.ready-wheel
	scripts/system-packages libopenmpi-dev openmpi-bin
	DATAMOVER_BENCH=OFF DATAMOVER_TESTS=OFF $(BIN)/python scripts/build-wheel $(WHEELS) \
	    --mpis $(WHEEL_MPIS) --mpich $(abspath $(WHEEL_MPICH))

# That wheel in environments without compilers; in each of WHEEL_PYTHONS.
test-wheel: wheel
	$(PYTHON) tests/try-wheel $(WHEELS) --mpicc-abi $(BIN)/mpicc_abi --pythons $(WHEEL_PYTHONS)

# Everything that a release uploads, in build/dist: an sdist, a wheel for this Python, and one for Python 3.12
# and later if scripts/newer-pythons finds one.
dist: wheel
	rm -rf build/dist
	$(BIN)/python -m build --sdist --no-isolation --outdir build/dist
	cp $(WHEELS)/*.whl build/dist
	ls build/dist/*-abi3-* > /dev/null 2>&1 || for python in $$(scripts/newer-pythons | head -n 1); do \
	    $(MAKE) wheel PYTHON=$$python VENV=.venv-abi3 WHEELS=build/wheels-abi3 WHEEL_MPICH=$(abspath $(BIN)) && \
	    cp build/wheels-abi3/*.whl build/dist || exit; done
	$(BIN)/python -m twine check --strict build/dist/*

# The Debian source package of the C and C++ libraries, of the last commit, in build/deb.
deb-source:
	rm -rf build/deb && mkdir -p build/deb/datamover
	git archive HEAD | tar -x -C build/deb/datamover
	cp -r packaging/debian build/deb/datamover
	cd build/deb/datamover && dpkg-buildpackage --build=source --no-sign --no-pre-clean --no-check-builddeps
	if command -v lintian > /dev/null; then lintian --fail-on error,warning build/deb/*.dsc; fi

deb: deb-source
	scripts/system-packages dpkg-dev debhelper cmake mpi-default-dev
	cd build/deb/datamover && dpkg-buildpackage --build=binary --no-sign

bench: install
	$(BIN)/datamover bench latency -n 2

# The site of the documents: pages and the reference of every face, in build/site.
docs: install $(VENV)/.ready-docs
	scripts/system-packages doxygen
	rm -rf build/site build/docs docs/reference/python docs/pictures
	mkdir -p docs/pictures
	cd docs/pictures && awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on' ../gallery.md | \
	    PATH="$(abspath $(BIN)):$$PATH" sh -e > /dev/null
	rm -rf docs/reference/help && mkdir -p docs/reference/help
	for words in "" explain move stream "stream record" "stream info" "stream view" bench app; do \
	    COLUMNS=90 NO_COLOR=1 $(BIN)/datamover $$words --help > docs/reference/help/$$(echo datamover $$words | tr ' ' _).txt || exit; done
	mkdir -p build/docs/doxygen/c build/docs/doxygen/cpp
	doxygen docs/reference/c.doxyfile
	doxygen docs/reference/cpp.doxyfile
	$(BIN)/python -m sphinx -q -W --keep-going -d build/docs/doctrees docs build/site
	@echo "the site is in build/site/index.html"

format: $(VENV)/.ready-lint
	$(CXX_FILES) | xargs $(BIN)/clang-format -i
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

STUBS := $(BUILD)/bindings/datamover/_mover.pyi

$(STUBS):
	$(MAKE) install

# The types are checked in a copy of the package that has the stubs of the compiled modules.
lint: $(VENV)/.ready-lint $(STUBS)
	$(CXX_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	scripts/check-prose
	rm -rf build/types && mkdir -p build/types
	cp -rs $(abspath python/datamover) build/types
	cp $(dir $(STUBS))*.pyi build/types/datamover
	cd build/types && $(abspath $(BIN))/mypy --config-file $(abspath pyproject.toml) --cache-dir ../mypy \
	    datamover $(wildcard $(CURDIR)/examples/python/*.py)

clean:
	rm -rf build demo $(VENV)
