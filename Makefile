# make demo: fit, print, draw.   make test: everything that must hold.   Both need only Python >= 3.11 and make.
# On Windows: make and a POSIX shell, such as those that come with Git.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
SCRIPTS = Scripts
EXE     = .exe
else
PYTHON ?= python3
SCRIPTS = bin
endif
VENV   ?= .venv
BIN     = $(VENV)/$(SCRIPTS)
PIP     = $(BIN)/python -m pip --quiet --disable-pip-version-check

# Texts are UTF-8 wherever tests read and write them.
export PYTHONUTF8 = 1
# Compiled modules are kept on disk, even if the environment asks for none: tests start many processes.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test lint types layers compile docs gallery architecture tests tests-avx2 stress bare paper bench clean \
	matrix release types-user hooks

demo: $(VENV)/.demo
	$(BIN)/bdkn demo --out report

# Compiling, and tests in one process, keep one core busy; the checks that run nothing have the other one meanwhile.
test: $(VENV)/.test
	$(MAKE) -j 2 tests-avx2 compile types docs lint layers
	$(RUN_TESTS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

layers: $(VENV)/.test
	$(BIN)/lint-imports

# The site, into build/site: any warning is an error, and nothing is downloaded. "make gallery" runs its examples again,
# "make architecture" writes the tables of docs/architecture.md, which tests/test_house.py checks.
docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

architecture: $(VENV)/.test
	$(BIN)/python docs/tools/architecture.py

gallery: $(VENV)/.test
	$(BIN)/python docs/tools/gallery.py

# Two processes share the cores: a thread of OpenMP that waits must leave its core to others. Else small products and
# trees, each a moment long, take many times as long.
test tests tests-avx2 bare: export OMP_WAIT_POLICY = passive

# worksteal: neighbours stay in one process, which keeps what they share; a process without work takes from the other.
RUN_TESTS = $(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=95

# Compiled code is made anew if its sources changed, once and before there are two processes, each of which would compile it.
compile: $(VENV)/.test
	$(BIN)/python tests/compile_all.py

tests: compile
	$(RUN_TESTS)

# Numbers must not depend on the width of vectors: the tests of compiled loops, as on a CPU without AVX-512. On such a CPU
# there is nothing to do, since all tests were run so.
tests-avx2: $(VENV)/.test
	$(BIN)/python tests/on_avx2.py --compile
	$(BIN)/python tests/on_avx2.py -q

# What is done to break the library, and how often it breaks: docs/reliability.md. Takes hours.
stress: $(VENV)/.test $(VENV)/.release
	for script in tests/stress/[a-z]*.py; do case $$script in */record.py|*/page.py|*/test_*) ;; \
		*) $(BIN)/python $$script --write || exit 1 ;; esac; done
	$(BIN)/python tests/stress/page.py

# Lowest and newest versions of all dependencies, on each Python from 3.11 to 3.14 that is here: on the path, or kept by
# pyenv. Another one: make matrix MATRIX="--python PATH".
matrix: $(VENV)/.release
	$(BIN)/python tests/stress/supply.py --write $(MATRIX)

# What would be released, into dist: built, checked, installed into empty environments, the demo run. Nothing is uploaded.
release: $(VENV)/.release
	$(BIN)/python tests/stress/release.py

# A user's file, as pyright sees it; mypy is part of "make types".
types-user: $(VENV)/.test $(VENV)/.release
	$(BIN)/pyright --project tests/typing --pythonpath $(BIN)/python$(EXE)

# The checks that are run before each commit: see .pre-commit-config.yaml.
hooks: $(VENV)/.test $(VENV)/.release
	$(BIN)/pre-commit install

# What a user without PyTorch has: its own environment, nothing of the extra "torch".
bare:
	$(PYTHON) -m venv .venv-bare
	.venv-bare/$(SCRIPTS)/python -m pip --quiet --disable-pip-version-check install -c constraints.txt '.[test-core]'
	.venv-bare/$(SCRIPTS)/python -c 'import importlib.util as u; assert not u.find_spec("torch"), "torch must not be there"'
	.venv-bare/$(SCRIPTS)/python tests/compile_all.py
	.venv-bare/$(SCRIPTS)/pytest -n 2 --dist worksteal tests

# The experiments of the paper: see reproduction/README.md.
paper: $(VENV)/.test

bench: $(VENV)/.test
	$(PIP) install -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/engine.py --write
	$(BIN)/python benchmarks/sufficient_statistics.py --write

clean:
	rm -rf $(VENV) .venv-bare .numba-avx2 report build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src -name '*.nb[ic]' -delete

$(BIN)/python$(EXE):
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "bdkn needs Python >= 3.11; this is " + sys.version'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python$(EXE) pyproject.toml
	$(PIP) install -e '.[cli]'
	touch $@

# torch first and pinned, so that nothing else pulls another. Its CPU build is enough: see constraints.txt. Modules are
# compiled when they are first imported, which most never are; setuptools builds both packages without an environment of
# its own for each.
$(VENV)/.test: $(BIN)/python$(EXE) pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PIP) install --no-compile -c constraints.txt torch "setuptools>=77"
	$(PIP) install --no-compile --no-build-isolation -c constraints.txt -e '.[test]' -e './reproduction[test]'
	touch $@ $(VENV)/.demo

$(VENV)/.release: $(BIN)/python$(EXE) pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[release]'
	touch $@
