# Each target sets up what it needs in .venv; nothing is installed elsewhere.
PYTHON ?= python3
VENV := .venv
STUDY ?= study.toml
BIN := $(VENV)/bin

.PHONY: help run demo test kernels lint format typescript serve trial bench league mutants docs wheel dist sbom clean lock

help:  ## Show the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/run.stamp  ## Reproduce the paper's experiments (quick form) into results/
	$(BIN)/surefoot reproduce --quick --out results
	@echo 'To see a whole trial in about a minute: $(BIN)/surefoot demo'

demo: $(VENV)/run.stamp  ## A whole small trial in about a minute, into surefoot-demo/
	$(BIN)/surefoot demo

# Bytecode is kept, whatever the machine says: the tests start the command again and again.
test: lint  ## Every check: formatting, lint, types, tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# An AVX2 processor with one thread, then one from before AVX with two: BLAS and NumPy round differently on each.
KERNEL_TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow' --ignore tests/learning/test_array_api.py tests/numerics tests/learning
kernels: $(VENV)/dev.stamp  ## Numerics and learning tests with the BLAS kernels of other processors (x86-64 with AVX2)
	OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1 NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR' $(KERNEL_TESTS)
	OPENBLAS_CORETYPE=Nehalem OPENBLAS_NUM_THREADS=2 NPY_DISABLE_CPU_FEATURES='X86_V3 X86_V4 AVX512_ICL AVX512_SPR' $(KERNEL_TESTS)

lint: $(VENV)/dev.stamp  ## Formatting, lint, types and layers only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/dev.stamp  ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

typescript: clients/typescript/node_modules/stamp  ## Check the types of the TypeScript client (needs Node 20 and npm)
	cd clients/typescript && npm run --silent check

serve: $(VENV)/dev.stamp  ## Serve the study named by STUDY (make serve STUDY=study.toml)
	$(BIN)/surefoot serve --study $(STUDY)

trial: $(VENV)/dev.stamp  ## Run a whole simulated trial against a live server
	$(BIN)/python examples/trial/run.py

bench: .venv-bench/stamp  ## Measure the package beside its alternatives, in one run
	.venv-bench/bin/python benchmarks/service.py
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv-bench/bin/python -m benchmarks

league: .venv-bench/stamp  ## Go on with the league of methods and published algorithms (hours), and write its table
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 SUREFOOT_THREADS=1 .venv-bench/bin/python -W ignore -m benchmarks.league

mutants: $(VENV)/dev.stamp  ## Break the code on purpose and count what no test notices (420 drawn at random: half an hour)
	$(BIN)/python -m pip install --quiet 'mutmut>=3.8,<3.9'
	$(BIN)/python tests/mutants.py

docs: $(VENV)/dev.stamp  ## Build the manual into site/: tutorials are run, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo 'The manual: site/index.html'

wheel: $(BIN)/python  ## Build the wheel that a trial installs, into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

dist: $(VENV)/dev.stamp  ## Build sdist and wheel of a release, into dist/
	rm -f dist/surefoot-*
	$(BIN)/python -m build --no-isolation --outdir dist .

sbom: $(VENV)/dev.stamp  ## Write the bill of materials of the service (CycloneDX) to dist/surefoot.cdx.json
	$(BIN)/python deploy/sbom.py dist/surefoot.cdx.json

clean:  ## Remove everything that can be made again
	rm -rf $(VENV) .venv-bench mutants results build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info clients/typescript/node_modules clients/typescript/build

lock:  ## Renew constraints.txt from the newest releases that pyproject.toml allows
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet '.[dev]'
	$(VENV)/lock/bin/pip freeze --all --exclude pip --exclude surefoot > constraints.txt
	rm -rf $(VENV)/lock

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Surefoot needs Python 3.11 or newer; say which with: make PYTHON=python3.12 …' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

# Peers have an environment of their own, so that they do not burden the product.
.venv-bench/stamp: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet -c constraints.txt -e '.[service,cluster]' -r benchmarks/requirements.txt
	@touch $@

clients/typescript/node_modules/stamp: clients/typescript/package.json clients/typescript/package-lock.json
	cd clients/typescript && npm ci --silent --no-audit --no-fund
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@
