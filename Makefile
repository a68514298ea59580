# One .venv beside this file serves every target; it is made on first use and again when pyproject.toml or
# constraints.txt change. Needs make, a POSIX shell and Python >= 3.11 with venv. All paths are relative, so that
# the checkout may lie in a folder with spaces.

PROFILE ?= quick
ONLY ?=
JOBS ?= 1
TEST_JOBS ?= 2
ARGS ?=
PYTHON ?=

STAMP = .venv/.handful
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: help setup reproduce test fuzz lint types lab docs links bench clean

help: ## Show this
	@echo "Targets (what needs .venv sets it up first):"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "Variables:"
	@echo "  PROFILE=quick   for reproduce: quick, laptop, paper or gpu"
	@echo "  ONLY=fig06      for reproduce: part of a notebook's name, or a pattern with *"
	@echo "  JOBS=1          for reproduce: notebooks at a time"
	@echo "  TEST_JOBS=2     for test: processes"
	@echo "  ARGS=           for lab: options of jupyter lab, such as ARGS=\"--no-browser --port 9999\""
	@echo "  PYTHON=python3  for the set-up: a Python >= 3.11 (else the first that is found)"

setup: $(STAMP) ## Make .venv with all that notebooks, tests and docs need

reproduce: $(STAMP) ## Run the papers' notebooks (minutes, no network at PROFILE=quick), then build the site
	@status=0; .venv/bin/handful reproduce --profile "$(PROFILE)" --jobs "$(JOBS)" $(if $(ONLY),--only "$(ONLY)") || status=$$?; \
	$(MAKE) --no-print-directory docs; exit $$status

test: lint ## Lint, then run all tests and every notebook at profile quick
	@.venv/bin/python -m pytest -n $(TEST_JOBS) --dist worksteal

fuzz: $(STAMP) ## Try the relations that hold for every estimator, and the SVM's bound, on many tables: HANDFUL_EXAMPLES=2000
	@HANDFUL_EXAMPLES=$${HANDFUL_EXAMPLES:-2000} .venv/bin/python -m pytest -q -n $(TEST_JOBS) tests/contracts/test_contracts.py \
		tests/sensitivity/test_svm.py::test_sensitivities_of_many_points_are_below_the_tight_bound

lint: $(STAMP) ## Check code and notebooks with ruff, docstrings with numpydoc, print how dense lines are; notebook sources hold no outputs
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/python tests/line_measures.py
	@.venv/bin/python tests/docstring_rules.py
	@find notebooks docs/howto -name .ipynb_checkpoints -prune -o -name '*.ipynb' -exec \
		.venv/bin/nbstripout --verify --extra-keys "metadata.papermill cell.metadata.papermill" {} + \
		|| { echo "Notebooks hold outputs; to strip them: .venv/bin/pre-commit run --all-files"; exit 1; }

types: $(STAMP) ## Check the annotations of the public interface with mypy (half a minute)
	@.venv/bin/mypy

lab: $(STAMP) ## Open JupyterLab on the notebooks' table of contents
	@.venv/bin/jupyter lab $$([ "$$(id -u)" = 0 ] && echo --allow-root) $(ARGS) notebooks/index.ipynb

docs: $(STAMP) ## Build the site, docs/_build/html/index.html (minutes): runs the how-tos, any warning is an error
	@$(ONE_THREAD) .venv/bin/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "Site: docs/_build/html/index.html"

links: $(STAMP) ## Check links between the files, then ask every address that the site names (needs the network)
	@.venv/bin/python -m pytest -q -n0 tests/project/test_site.py -k links
	@$(ONE_THREAD) .venv/bin/python -m sphinx -b linkcheck -q docs docs/_build/links

bench: $(STAMP) ## Time each algorithm against what one would use instead: benchmarks/*.py, one thread
	@status=0; for script in benchmarks/[!_]*.py; do \
		[ -e "$$script" ] || continue; \
		echo; echo "$$script"; \
		$(ONE_THREAD) .venv/bin/python "$$script" || { status=1; echo "$$script failed" >&2; }; \
	done; exit $$status

clean: ## Remove .venv, caches, quick results and the site; data and committed figures stay
	rm -rf .venv build dist lib/handful.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis docs/_build
	rm -rf figures/quick docs/reproduction docs/notebooks docs/reference
	find lib tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The stamp comes last: a set-up that was killed or failed is taken up again by the next make.
$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@recent='import sys; sys.exit(sys.version_info < (3, 11))'; \
	if .venv/bin/python -c "import pip; $$recent" >/dev/null 2>&1; then exit 0; fi; \
	if [ -n "$(PYTHON)" ]; then set -- "$(PYTHON)"; else set -- python3 python3.14 python3.13 python3.12 python3.11; fi; \
	chosen=; found=; without=; \
	for python; do \
		version=$$("$$python" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
		found="$$found $$python ($$version)"; \
		"$$python" -c "$$recent" || continue; \
		if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$python; break; fi; \
		without=$${without:-$$python}; \
	done; \
	if [ -n "$$chosen" ]; then \
		echo "Setting up .venv with $$chosen: some minutes, 2.8 GB (more where torch comes with CUDA)"; \
		rm -rf .venv && "$$chosen" -m venv .venv; \
	elif [ -n "$$without" ]; then \
		echo "$$without comes without venv, which Debian and Ubuntu have in a package of its own:" >&2; \
		echo "  sudo apt install $${without##*/}-venv" >&2; \
		exit 1; \
	else \
		echo "handful needs Python 3.11 or later; found:$${found:- none}." >&2; \
		echo "  Debian >= 12, Ubuntu >= 24.04: sudo apt install python3 python3-venv" >&2; \
		echo "  a Python elsewhere: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi
	.venv/bin/python -m pip install --disable-pip-version-check -e ".[all]" -c constraints.txt
	@touch $@
