# Short names for what the README and CONTRIBUTING.md describe.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install --quiet -e '.[dev,plot]'
	touch $@

.PHONY: demo test slow lint types layers docs prose
demo: $(VENV)/installed
	$(RUN) -m sdpkit demo

test: $(VENV)/installed
	$(RUN) -m pytest -n auto

slow: $(VENV)/installed
	$(RUN) -m pytest -m slow

lint: $(VENV)/installed
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

# mypy cannot follow the mapping of `problems/` and `solvers/` in a source tree: check an
# installed copy, from a folder outside of the checkout.
.types/installed: pyproject.toml $(shell find sdpkit problems solvers -name '*.py*' -not -path '*/__pycache__/*')
	rm -rf .types && $(PYTHON) -m venv .types
	.types/bin/python -m pip install --quiet '.[dev]'
	touch $@

types: .types/installed
	cd .types && bin/python -m mypy --config-file ../pyproject.toml -p sdpkit

# Who may import whom, on the same installed copy and for the same reason.
layers: .types/installed
	cd .types && bin/lint-imports --config ../pyproject.toml --no-cache

# The numbers of docs/how_fast.md and of the README, measured anew (on an idle machine).
SUITE ?= fast
.PHONY: figures
figures: $(VENV)/installed
	$(VENV)/bin/sdpkit compare --suite $(SUITE) --fresh --csv docs/measured.csv --force
	$(VENV)/bin/sdpkit report docs/measured.csv --markdown docs/how_fast.md README.md

# One table of the docs, measured on this machine: make bench NAME=interior ARGS="--sizes 100".
.PHONY: bench
bench: $(VENV)/installed
	$(RUN) docs/bench $(NAME) $(ARGS)

# The site, in docs/_build/html; opens from disk. It takes about ten minutes.
$(VENV)/docs: $(VENV)/installed
	$(RUN) -m pip install --quiet -e '.[docs]'
	touch $@

docs: $(VENV)/docs
	PYTHONPATH=$(CURDIR) $(RUN) -m sphinx -W --keep-going -j 2 -b html docs docs/_build/html

# Spelling, phrases that readers stumble over, and docstrings by numpydoc's validation.
prose: $(VENV)/docs
	$(VENV)/bin/codespell README.md CHANGELOG.md CONTRIBUTING.md docs sdpkit problems solvers
	$(RUN) docs/prose.py
	$(RUN) docs/check_docstrings.py
