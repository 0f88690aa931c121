# The whole vocabulary of this project: `make help` lists it, CI speaks the same words.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SERVE_VENV ?= .venv-serve
DOCS_VENV ?= .venv-docs
SBOM_VENV ?= .venv-sbom

# Nothing that we depend on reports home.
export ORT_DISABLE_TELEMETRY := 1
export MLFLOW_DISABLE_TELEMETRY := true
export DVC_NO_ANALYTICS := 1
export DO_NOT_TRACK := 1
export RAY_USAGE_STATS_ENABLED := 0
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) .dvc/tmp/plots.html $(if $(wildcard .git),,.dvc/config.local)  ## Make .venv with the pinned set of packages

# pip, and not a faster installer, because it honours the user's own index, find-links and constraints. `__init__.py` has
# the version.
$(READY): pyproject.toml constraints.txt src/nsh/__init__.py
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[serve,train,ops,studies,ray,remote,parquet,milvus-lite,lance,dev]'
	touch $@

# The page that shows DVC's charts without a network.
.dvc/tmp/plots.html: $(READY) src/nsh/reports/offline_plots.py
	python -m nsh.reports.offline_plots $@

# A project unpacked from a ZIP is in no git repository: DVC needs `no_scm`, and cannot run experiments.
.dvc/config.local:
	printf '[core]\n    no_scm = true\n' > $@

# A profile in params/ holds what differs from params.yaml; use_profile writes it in. PROFILE=default restores the original.
.PHONY: repro
repro: setup  ## Run the whole pipeline, or what a change touches (dvc repro), and record it in MLflow; PROFILE=<of params/>
	$(if $(PROFILE),tools/use_profile $(PROFILE))
	nsh params check
	dvc repro
	nsh track sync
	nsh card
	nsh times
	nsh committed

.PHONY: quickstart
quickstart: setup  ## From a folder of photos to a search page: make quickstart PHOTOS=~/photos (see nsh quickstart --help)
	nsh quickstart "$(PHOTOS)" $(if $(PORT),--port $(PORT))

.PHONY: tune
tune: setup  ## Search for better parameters: make tune METHOD=nsh_plus, also BITS= TRIALS= TIMEOUT= ONLY= (docs/tuning.md)
	$(if $(METHOD),,$(error METHOD is not given: make tune METHOD=nsh_plus))
	nsh params check
	dvc repro embed
	nsh tune $(METHOD) $(if $(BITS),--bits $(BITS)) $(if $(TRIALS),--trials $(TRIALS)) $(if $(TIMEOUT),--timeout $(TIMEOUT)) \
		$(foreach name,$(ONLY),--only $(name))

AGAINST ?= main
.PHONY: report
report: setup  ## Write report.md: the present results beside those of a revision, AGAINST=<revision>, by default main
	nsh report --against $(AGAINST) --out report.md

# Tests wait for processes and share two cores, so each has one thread.
IN_PAIRS = -n 2 --dist loadfile --no-loadscope-reorder
PYTEST = OMP_NUM_THREADS=1 pytest $(IN_PAIRS)

.PHONY: test
test: setup  ## Run the tests, two at a time; ORDER=<number> or ORDER=random: files and tests in another order
	$(PYTEST) $(if $(ORDER),--random-order --random-order-seed=$(ORDER:random=$(shell echo $$RANDOM)))

.PHONY: test-fast
test-fast: setup  ## Run the tests that take little time, while you work
	$(PYTEST) -m "not slow"

.PHONY: coverage
coverage: setup  ## Run the tests and say which lines none of them runs; fails below the floor in pyproject.toml
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	OMP_NUM_THREADS=1 coverage run -m pytest $(IN_PAIRS)
	coverage combine --quiet
	coverage report --skip-covered --show-missing

# Beside two busy processes, and without AVX where it may be chosen: tests/conftest.py fixes the kernels of torch itself.
OLD_CPU = ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem

.PHONY: test-portable
test-portable: setup  ## Run the tests as on an old CPU that is busy, for those who change numeric code
	for core in 1 2; do python -c 'while True: pass' & done; trap 'kill $$(jobs -p)' EXIT; $(OLD_CPU) $(PYTEST)

# QEMU runs the training on processors of other makers (apt-get install qemu-user), whose last bits no variable simulates.
.PHONY: test-emulated
test-emulated: setup  ## Train every method on emulated processors of AMD and Intel: the heads must be the same bytes; takes minutes
	OMP_NUM_THREADS=1 pytest -n 2 --dist load tests/training/emulated.py

.PHONY: test-crash
test-crash: setup  ## Kill commands and services that change an index, a hundred times; takes minutes
	OMP_NUM_THREADS=1 pytest -s tests/serving/crash.py

# The environment that a server has, with what tests need besides: no torch, no onnx, no mlflow, no dvc.
.PHONY: test-serve
test-serve: $(SERVE_VENV)/.ready  ## Run production's tests where there is no torch
	$(SERVE_VENV)/bin/python -c 'import importlib.util as u; found = [n for n in ("torch", "onnx", "mlflow", "dvc") if u.find_spec(n)]; assert not found, found'
	OMP_NUM_THREADS=1 $(SERVE_VENV)/bin/python -m pytest $(IN_PAIRS) tests/core tests/serving tests/system

$(SERVE_VENV)/.ready: pyproject.toml constraints.txt
	test -x $(SERVE_VENV)/bin/python || $(PYTHON) -m venv $(SERVE_VENV)
	$(SERVE_VENV)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[serve,test]'
	touch $@

# It reads the code and imports none of it, so it needs neither torch nor .venv. With --quiet, mkdocs is no longer strict.
.PHONY: docs
docs: $(DOCS_VENV)/.ready  ## Build the documentation site into build/site; a broken link fails
	PATH="$(abspath $(DOCS_VENV)/bin):$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --strict
	@echo 'Look at it: python3 -m http.server -d build/site -b 127.0.0.1 8001'

$(DOCS_VENV)/.ready: pyproject.toml constraints.txt
	test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[docs]'
	touch $@

# An environment of its own, so that the list has no package for the list's sake.
.PHONY: sbom
sbom: setup $(SBOM_VENV)/.ready  ## Write build/sbom.json: the packages of .venv with versions and licences (CycloneDX)
	mkdir -p build
	$(SBOM_VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
		-o build/sbom.json $(BIN)/python

$(SBOM_VENV)/.ready: constraints.txt
	test -x $(SBOM_VENV)/bin/python || $(PYTHON) -m venv $(SBOM_VENV)
	$(SBOM_VENV)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt 'cyclonedx-bom>=7.5'
	touch $@

.PHONY: readme
readme: setup  ## Run README's commands, each as printed, where make repro has run
	python tools/run_readme

.PHONY: image-check
image-check:  ## Build the images without Docker, and train, serve and record in them
	tools/image_check

.PHONY: check
check: setup  ## Lint, formatting, types and imports between packages
	ruff check .
	ruff format --check .
	mypy
	lint-imports

.PHONY: format
format: setup  ## Format the code and apply safe fixes
	ruff check --fix .
	ruff format .

.PHONY: ui
ui: setup  ## Compare runs in the browser (mlflow ui)
	mlflow ui --workers 1 --backend-store-uri $${MLFLOW_TRACKING_URI:-sqlite:///mlflow.db}

.PHONY: bench
bench: setup  ## Run every benchmark; each compares with an alternative in the same run
	for script in benchmarks/*.py; do echo "== $$script"; python $$script || exit 1; done

# Results are kept: a second call measures only what is new, and an interrupted one continues. With MISSING=1 only what nobody has
# measured yet is measured: what docs/results/ does not record. See --help of nsh.studies.table.
SETTING ?= cifar10
STUDY = --setting $(SETTING) $(if $(ROOT),--root $(ROOT)) $(if $(JOBS),--jobs $(JOBS)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MISSING),--missing)
CHOSEN = $(if $(METHODS),--methods $(METHODS))

.PHONY: table
table: setup  ## All methods at 16, 32, 64 bits, several seeds (hours): make table ROOT=<CIFAR-10>, also METHODS= SEEDS= MISSING=1, SETTING=fashion-mnist
	python -m nsh.studies.table $(STUDY) $(CHOSEN) $(if $(BITS),--bits $(BITS))

.PHONY: ablation
ablation: setup  ## NSH with each part removed, beside the paper's table 3: make ablation ROOT=<CIFAR-10>
	python -m nsh.studies.ablation $(STUDY) $(if $(BITS),--bits $(BITS))

.PHONY: sweep
sweep: setup  ## What temperatures, m and short codes do to NSH, as the paper's figure 5: make sweep ROOT=<CIFAR-10>
	python -m nsh.studies.sweep $(STUDY)

.PHONY: figures
figures: setup  ## Precision-recall curves, Hamming balls and t-SNE of what make table has measured
	python -m nsh.studies.figures --setting $(SETTING) $(if $(ROOT),--root $(ROOT)) $(CHOSEN)

.PHONY: estimate
estimate: setup  ## How well the estimate of mAP without labels ranks what make table has measured
	python -m nsh.studies.estimate --setting $(SETTING) $(if $(ROOT),--root $(ROOT))

.PHONY: clean
clean:  ## Remove scratch and caches; data, models, results and the results of studies stay
	rm -rf .cache/nsh .cache/coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist src/*.egg-info
