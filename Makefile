# What a newcomer needs: `make up` to look at it, `make test` to change it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py')
# What the web application is built from.
WEB := $(shell find web -type f -not -path '*/node_modules/*' -not -name schema.d.ts)
API := $(shell find src/postern/api -name '*.py')
WEB_BUILT := src/postern/web/dist/.sources
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# What runs compiled where it can be is tested both ways: from its source by people, since compiling takes longer than
# most tests do, as it is installed by continuous integration, where real clients meet it, and in both by `make test-all`.
HOT_TESTS := tests/interception tests/inspection/test_*.py tests/inspection/guardrails tests/protocols tests/relay tests/recording tests/transport tests/e2e \
	$(filter-out %/test_interceptor.py %/test_columns.py,$(wildcard tests/inspection/masking/test_*.py))

# Whole files go to each core, as the tests of most share a gateway or a server. A failure is told where it happens, and
# a test that hangs fails, so that a run that is cut short has still said what was wrong.
# Gateways of tests are processes of their own, which would each compile all of the source anew where the environment says
# that no bytecode is kept.
# In continuous integration there is one more worker than cores: the tests with servers and browsers often wait for them.
WORKERS := $(if $(CI),$(shell cores=$$(nproc); echo $$((cores < 8 ? cores + 1 : 8))),logical)
PYTEST := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode $(BIN)/pytest -q -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder --instafail --timeout 600
FAST := not slow and not huge
# One failure among 30,000 tests with real servers hides what the others have shown. A test that fails is run once more,
# five for each worker at most, and the summary names each with its traceback (docs/decisions/0153).
ONCE_MORE := --reruns 1 --max-suite-reruns 5 --rerun-show-tracebacks
# What continuous integration runs: the hot path as it is installed, then everything else from its source. The second part
# runs even where the first has failed, so that one run names all that is wrong.
COMPILED = POSTERN_TEST_INSTALLED=1 $(PYTEST) -m "$(FAST)" --durations=30 -o pythonpath=. $(wildcard $(HOT_TESTS))
OTHERS = $(PYTEST) -m "$(FAST)" --durations=30 --one-row-on-postgres $(addprefix --ignore=,$(wildcard $(HOT_TESTS)))
NPM := PATH=$(CURDIR)/$(BIN):$$PATH npm --prefix web

.DEFAULT_GOAL := help
.PHONY: help up web web-dev test test-changed test-all bench lint format services drivers mutants proto pictures docs manifests release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.installed ## install, and run the gateway with its demo database (Ctrl-C stops it)
	@exec $(BIN)/postern up

test: lint services $(WEB_BUILT) $(if $(CI),$(VENV)/.installed) ## lint, types and the everyday tests (ROOM=protocols: those of one room)
ifneq ($(if $(ROOM),,$(CI)),)
	@failed=0; $(COMPILED) $(ONCE_MORE) || failed=1; $(OTHERS) $(ONCE_MORE) || failed=1; exit $$failed
else
	@$(PYTEST) -m "$(FAST)" $(if $(ROOM),$(addprefix tests/,$(ROOM)),--everyday)
endif

test-changed: lint services $(WEB_BUILT) ## tests that what was changed since BASE=HEAD is likely to affect
	@$(PYTEST) -m "$(FAST)" $$($(BIN)/python scripts/affected_tests.py $(or $(BASE),HEAD))

test-all: export POSTERN_TEST_EXAMPLES = thorough
test-all: lint services $(WEB_BUILT) drivers $(VENV)/.installed ## everything, the slow and the huge tests too
	@POSTERN_TEST_INSTALLED=1 $(PYTEST) -m "not huge" -o pythonpath=. $(wildcard $(HOT_TESTS))
	@POSTERN_TEST_INSTALLED=1 $(BIN)/pytest -q -m huge -o pythonpath=. tests/e2e
	@$(PYTEST) -m "not huge"
	@$(BIN)/pytest -q -m huge

lint: $(VENV)/.installed-dev $(WEB_BUILT) ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(NPM) run --silent check

format: $(VENV)/.installed-dev ## put the code into its standard form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(NPM) run --silent format

services: $(VENV)/.installed-dev ## install the servers and tools that tests use (Debian, Ubuntu)
	@scripts/install-services postgresql pgbench mariadbd mariadb-ed25519 mysql xmlsec1 faketime git slapd sshd ssh sshpass rsync redis-server redis-cli sysbench prometheus promtool chromium strace systemd-analyze freetds mssql-odbc
	@[ -z "$(CI)" ] || CI= scripts/install-services helm # built by Go, where it is new enough; without it its tests are skipped

drivers: $(VENV)/.installed-dev # … the languages of drivers, and what builds packages, images and charts, which the slow tests use
	@$(PIP) '.[release]'
	@scripts/install-services go javac mvn buildah mmdebstrap systemd-nspawn helm mongosh mongodb-node mongodb-mappers http-applications ferretdb dynamodb-local aws-node mssql-node mssql-jdbc oracle-node oracle-jdbc

bench: $(VENV)/.installed-dev $(VENV)/.installed ## measure beside a direct connection and pgbouncer (ARGS=--quick)
	@scripts/install-services postgresql pgbench pgbouncer nginx wrk curl chromium
	@$(BIN)/python -m bench $(ARGS)

mutants: $(VENV)/.installed-dev ## change the critical rooms at random and see which changes the tests notice (ARGS="proof --sample 50")
	@$(PIP) cosmic-ray
	@$(BIN)/python scripts/mutation_test.py $(ARGS)

web: $(WEB_BUILT) ## build the web application into src/postern/web/dist

web-dev: $(WEB_BUILT) ## … and serve it while it is changed, in front of the gateway that `make up` runs
	@$(NPM) run dev

proto: $(VENV)/.installed-dev ## generate the control service's code from proto/
	@$(BIN)/python scripts/generate_control.py

pictures: services $(WEB_BUILT) ## take the pictures of the documentation and of the visual tests anew
	@POSTERN_PICTURES=$(CURDIR)/docs/pictures $(BIN)/pytest -q -n 0 tests/web/test_journey.py
	@POSTERN_SNAPSHOTS=write $(BIN)/pytest -q -n 0 tests/web/test_snapshots.py

release: $(VENV)/.installed-dev ## build the last commit into dist/: packages, SBOMs, checksums (docs/how-to/release.md)
	@$(PIP) '.[release]'
	@$(BIN)/python scripts/release.py build

manifests: $(VENV)/.installed-dev ## make deploy/kubernetes from the chart
	@scripts/install-services helm
	@$(BIN)/python scripts/generate_manifests.py

docs: $(VENV)/.installed ## write the generated pages anew
	@$(BIN)/python scripts/generate_docs.py

clean: ## remove the virtual environment and caches; never touches a gateway's data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build

# Stamps: nothing is installed again until what is asked for changes.
$(VENV)/.made: scripts/make-venv
	@scripts/make-venv $(VENV) $(PYTHON)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml setup.py constraints.txt $(SOURCES) $(WEB)
	@rm -rf build  # modules that were removed since would be installed again
	@echo "Installing into $(VENV); with a C compiler the hot path is compiled, which takes a minute or two (POSTERN_COMPILE=0 leaves it out)."
	@$(PIP) '.[demo]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml setup.py constraints.txt
	@rm -rf build
	@echo "Installing what tests need into $(VENV); with a C compiler the hot path is compiled, which takes a minute or two."
	@$(PIP) '.[dev]'
	@touch $(VENV)/.installed $@

# The types of the API's client come from the application itself, so they cannot differ from it.
$(WEB_BUILT): $(WEB) $(API) $(VENV)/.installed-dev scripts/build_web.py scripts/generate_web_types.py
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python scripts/build_web.py --development
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python scripts/generate_web_types.py
	@touch $@
