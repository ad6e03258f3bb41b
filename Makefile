# Every target sets up what it needs; the first one on a fresh machine takes longer.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
DRAWING := $(VENV)/.drawing
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: demo test test-all check simulate bench bench-quick generate kustomize mistakes format clean

demo: $(READY)  ## A TPU cluster on this machine, a job on it, a preempted node, and the job's recovery
	slipway demo

test: $(READY)  ## Every behaviour once: planner, API server, real nodes; what each change must pass
	$(PYTHON) -m tests.prepare
	$(PYTHON) -m tests $(PYTEST_ARGS)

test-all: $(READY)  ## Every test; or, with PART=NAME, those of one stage of tests/stages.py
	$(PYTHON) -m tests.prepare --all
	$(PYTHON) -m tests --all $(if $(PART),--part $(PART)) $(PYTEST_ARGS)

N ?= 1000
SEED ?= 0
simulate: $(READY)  ## N random histories of faults from SEED on; or, with REPLAY=FILE, what an operator recorded
	$(PYTHON) -m tests.simulation $(if $(REPLAY),--replay $(REPLAY),--count $(N) --seed $(SEED) --jobs 2)

bench: $(DRAWING)  ## Slipway beside JobSet, KubeRay and a bare client, in full: hours; writes docs/performance
	$(PYTHON) -m tests.bench run full --out bench.json
	$(PYTHON) -m tests.bench report bench.json --publish

bench-quick: $(READY)  ## The same in some minutes, ending with the tables of ratios
	$(PYTHON) -m tests.bench run quick --out bench.json

check: $(READY)  ## Style, types, layers, generated files
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	$(PYTHON) -m pytest -q -k generated tests/api tests/chart tests/docs

generate: $(READY)  ## Write again what is generated from the models and the planner's tables
	$(PYTHON) -m slipway.api.crd crds charts/slipway/files deploy/kustomize
	$(PYTHON) -m docs.generators.pages

kustomize: $(READY)  ## Write the kustomize base again, after a change of the chart; builds Helm where there is none
	$(PYTHON) -m tests.chart.kustomize

MISTAKES := $(VENV)/mistakes.jsonl
mistakes: $(READY)  ## Make every mistake of docs/mistakes.md on real clusters, and write the page
	$(PYTHON) -m tests.prepare --all
	rm -f $(MISTAKES)
	SLIPWAY_MISTAKES=$(MISTAKES) $(PYTHON) -m pytest tests/controlplane/test_crd.py tests/controlplane/test_operator.py \
		tests/controlplane/test_waiting.py tests/controlplane/test_rejections.py tests/e2e/test_mistakes.py
	$(PYTHON) -m docs.generators.mistakes $(MISTAKES)

format: $(READY)
	ruff check --fix .
	ruff format .

clean:  ## Remove the environment; the cache of built binaries stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml .ci/constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt pip
	$(PYTHON) -m pip install --quiet -c .ci/constraints.txt --editable . --group dev
	touch $@

$(DRAWING): $(READY)
	$(PYTHON) -m pip install --quiet -c .ci/constraints.txt --group bench
	touch $@
