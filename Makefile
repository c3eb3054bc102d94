# make demo, make test and make bench work on a fresh clone; the rest is for developers.
PYTHON ?= python3
TORCH ?= 2.13.0
PYTEST_ARGS ?= -n 2 -q
PROGRAMS ?= 100000
SEED ?= 0

VENV := .venv
BIN := $(VENV)/bin
# The system's cmake and ninja where there are any, else PyPI's.
export PATH := $(PATH):$(CURDIR)/$(BIN)

.PHONY: env build demo test fuzz fuzz-autodiff fuzz-shapes bench sanitize lint format clean
.DEFAULT_GOAL := build

ENV_DONE := $(VENV)/.weft-env
TORCH_DONE := $(VENV)/.weft-torch-$(TORCH)

## env: the environment; PARITY=1 adds PyTorch, the peer of the parity tests and of the bench
env: $(ENV_DONE) $(if $(PARITY),$(TORCH_DONE))

# Everything pyproject.toml asks for, and a one-line .pth in place of an editable install's hook.
$(ENV_DONE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; \
	  p = tomllib.load(open("pyproject.toml", "rb")); x = p["project"]["optional-dependencies"]; \
	  print(*p["build-system"]["requires"], *p["project"]["dependencies"], *x["test"], \
	        *x["plot"], "cmake", "ninja", sep="\n")' > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.txt
	echo "$(CURDIR)" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/weft.pth"
	touch $@

$(TORCH_DONE): $(ENV_DONE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)
	touch $@

build: $(ENV_DONE)
	@test -f build/build.ninja || cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
	@ninja -C build --quiet

demo: build
	$(BIN)/python examples/listops.py

test: build
	$(BIN)/pytest $(PYTEST_ARGS)

## fuzz: random dynamic programs, batched against one by one; PROGRAMS and SEED choose the run
## fuzz-autodiff: random programs of autodiff, against PyTorch
fuzz: build
	$(BIN)/python tests/deferred/fuzz.py --programs $(PROGRAMS) --seed $(SEED)

fuzz-autodiff: build $(TORCH_DONE)
	$(BIN)/python tests/autograd/autodiff_fuzz.py --programs $(PROGRAMS) --seed $(SEED)

## fuzz-shapes: every op over sizes that no machine can count
fuzz-shapes: build
	$(BIN)/python tests/fuzz_shapes.py --calls $(PROGRAMS) --seed $(SEED)

bench: build $(TORCH_DONE)
	$(BIN)/python bench/run.py

# The sanitized extension lies beside a copy of the package, which goes before the source tree on
# the path, also for the programs that tests start (PYTHONSAFEPATH: no working directory before it).
# PYTHONMALLOC=malloc shows ASAN every Python object; leaks are CPython's own at exit; a null for
# what no machine has is what malloc returns too; --capture=sys leaves file descriptor 2 to the
# sanitizers, whose reports would die with a worker.
sanitize: $(ENV_DONE)
	@test -f build/sanitize/build.ninja || cmake -S . -B build/sanitize -G Ninja -DWEFT_SANITIZE=ON
	@ninja -C build/sanitize --quiet
	rm -rf build/sanitize/stage && mkdir -p build/sanitize/stage
	cp -r weft build/sanitize/stage/ && rm -f build/sanitize/stage/weft/*.so
	cp build/sanitize/_C.*.so build/sanitize/stage/weft/
	PYTHONPATH=$(CURDIR)/build/sanitize/stage PYTHONMALLOC=malloc \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONSAFEPATH=1 \
	  $(BIN)/pytest --capture=sys $(PYTEST_ARGS)

SOURCES = $(shell find src -name '*.cpp' -o -name '*.h')

## lint: ruff, clang-format, mypy; then the longest files and functions, which nothing forbids
lint: $(ENV_DONE)
	$(BIN)/ruff check .
	@$(BIN)/clang-format --dry-run -Werror $(SOURCES)
	$(BIN)/mypy
	@$(BIN)/python tools/lengths.py 5

## format: the C++ sources as .clang-format says
format: $(ENV_DONE)
	@$(BIN)/clang-format -i $(SOURCES)

clean:
	rm -rf build dist out weft/*.so .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
