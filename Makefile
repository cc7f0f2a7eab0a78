# The commands of the book; `make` lists them. They make and refresh their virtual environment.
# Variables: PYTHON=python3.12 makes the environment with that Python; CUDA=12 takes the packages
# of CUDA 12, in an environment of their own; ARGS="..." goes to pytest or JupyterLab.
CUDA ?= 13
ifeq ($(filter 12 13,$(CUDA)),)
$(error CUDA=$(CUDA): there are locks for CUDA 12 and CUDA 13)
endif
suffix := $(if $(filter 12,$(CUDA)),-cuda12)
VENV := .venv$(suffix)
RUN := $(VENV)/bin/python
SPHINX := $(RUN) -m sphinx -b html --quiet
CHAPTERS := $(sort $(patsubst chapters/%.md,%,$(wildcard chapters/*.md)))

.PHONY: help html page serve lab test mutants check-records lint record lock clean venv chapter

help:
	@sed -n 's/^\([a-z-]*\):.*## /make \1|/p' $(firstword $(MAKEFILE_LIST)) | \
	    while IFS='|' read -r command does; do printf '%-20s %s\n' "$$command" "$$does"; done

# Every warning is an error, and so is a reference that leads nowhere.
html: venv ## build the book into _build/html, with every chapter executed
	@$(SPHINX) --nitpicky --fail-on-warning --keep-going --jobs auto \
	    -d _build/doctrees . _build/html || { \
	    echo "If a chapter failed: make page CHAPTER=its_name shows the cell and its error." >&2; exit 1; }
	@echo "The book: _build/html/index.html"

page: chapter venv ## build one chapter only: make page CHAPTER=v1_wgmma
	@$(SPHINX) -D include_patterns=chapters/$(CHAPTER).md -D root_doc=chapters/$(CHAPTER) \
	    -D suppress_warnings=ref,toc,myst,bibtex . _build/page
	@echo "The chapter, its links to other pages dead: _build/page/chapters/$(CHAPTER).html"

chapter:
	@case " $(CHAPTERS) " in *" $(CHAPTER) "*) ;; *) \
	    echo "CHAPTER=$(CHAPTER) names no chapter. There are: $(CHAPTERS)" >&2; exit 1;; esac

serve: venv ## show the built book on http://localhost:8000
	@test -f _build/html/index.html || { echo "There is no book yet: make html" >&2; exit 1; }
	@$(RUN) -m http.server --bind localhost --directory _build/html 8000

lab: venv ## JupyterLab on the chapters: a double click opens one as a notebook
	@$(RUN) -m jupyterlab --LabApp.default_url=/lab/tree/chapters \
	    $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

# Where there is a Hopper GPU, tests run one after the other (tests/conftest.py).
test: venv ## run every test; on a Hopper GPU, those that need one too
	@$(RUN) -m pytest -n auto --dist worksteal $(ARGS)

mutants: venv ## break every kernel in every way the emulator should catch, a quarter of an hour
	@$(RUN) -m hopper.emulator.mutation $(ARGS)

check-records: venv ## check that every recorded measurement is there, intact and fresh
	@$(RUN) -m hopper.records check

lint: venv ## ruff on the code; numbers without a source in the prose
	@$(RUN) -m ruff check --output-format concise .
	@$(RUN) -m ruff format --check --output-format concise .
	@$(RUN) -m hopper.lint_prose

record: ## measure on a Hopper GPU, with a PYTHON that has CuPy: make record OUT=folder
	@test -n "$(OUT)" || { echo "Where to? make record OUT=folder" >&2; exit 1; }
	@$(or $(PYTHON),python3) -m hopper.recording --out "$(OUT)"

# Keeps every pin that still fits; delete a lock first to move all its pins to the newest.
lock: ## make both locks from requirements*.in (needs uv)
	@for lock in requirements requirements-cuda12; do \
	    uv pip compile $$lock.in -o $$lock.txt --universal --python-version 3.11 \
	        --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --quiet \
	        || exit 1; done

clean: ## remove what was built; the virtual environment stays
	rm -rf _build jupyter_execute .pytest_cache .hypothesis .ruff_cache

venv:
	@sh scripts/venv.sh $(VENV) requirements$(suffix).txt $(PYTHON)
