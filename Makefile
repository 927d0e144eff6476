# The front door. `make help` lists what there is.
# A Python that somebody built (pyenv does) is often without optimisation, and a third as fast as this one.
ifndef PYTHON
PYTHON := $(shell /usr/bin/python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo python3)
endif
N ?= 1000
MINUTES ?= 60
ARGS ?=
BENCH ?= *
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
TESTS := $(PYTEST) -n 3 --dist loadfile
LAB := $(BIN)/python -m lab.openstack
PCMK := $(BIN)/python -m lab.pacemaker
STATE_WORD = $(if $(STATE),--state $(STATE))
UV ?= $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)
LOCK = $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-config --quiet \
	--no-emit-index-url --no-emit-package yaffle-health --no-annotate --no-header $(if $(UPGRADE),--upgrade)

export PYTHON
# What is run from here is compiled once and not by each of the many processes that a test starts.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help run test test-rest test-all held-up check docs sim sim-days chaos bench lab-openstack lab-openstack-down lab-pacemaker lab-pacemaker-down test-openstack test-tempest test-octavia test-mistral test-networks bad-days coverage-core test-deps lock clean venv-run venv-dev

help:  ## show this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

run: venv-run  ## see it work: a small cluster on this machine, one failure, one healing (ARGS=--once ends by itself)
	@$(BIN)/yaffle demo $(ARGS)

test: venv-dev  ## the tests that need nothing but Python, in about five minutes (ARGS='-k lease -x' goes to pytest; ARGS='-n 0' one at a time)
	@$(PYTEST) -n 2 --dist worksteal --tier first $(ARGS)

test-rest: venv-dev test-deps  ## the tests that `make test` leaves out: real databases, brokers, browsers, a cloud on this machine
	@$(TESTS) --tier rest $(ARGS)

test-all: venv-dev test-deps  ## all tests at once
	@$(TESTS) $(ARGS)

held-up: venv-dev test-deps  ## tests while every process is held up at random: finds those that are racy (ARGS='tests/contract'; SHARE=0.05 RATE=1 SEED=N)
	@$(BIN)/python tests/held_up/run.py $(if $(SHARE),--share $(SHARE)) $(if $(RATE),--rate $(RATE)) $(if $(SEED),--seed $(SEED)) \
		-- -n 3 --dist loadfile $(ARGS)

check: venv-dev  ## style, types, architecture, spelling and docs; says everything that is wrong, not only the first (DOCS=tested: they were)
	@failed=; \
	try() { printf -- '-- %s\n' "$$*"; "$$@" || failed="$$failed\n  $$*"; }; \
	try $(BIN)/ruff check .; \
	try $(BIN)/ruff format --check .; \
	try $(BIN)/mypy --strict src packages/yaffle-health/src lab; \
	try $(BIN)/lint-imports --no-logo; \
	try $(BIN)/codespell; \
	try $(BIN)/validate-pyproject pyproject.toml packages/yaffle-health/pyproject.toml; \
	if [ "$(DOCS)" != tested ]; then try $(PYTEST) -q tests/docs; fi; \
	if [ -n "$$failed" ]; then printf "check: FAILED:$$failed\n"; exit 1; fi; \
	echo "check: all passed"

docs: venv-dev  ## write the generated reference pages again, then check the documentation
	@if [ -f docs/generate.py ]; then $(BIN)/python docs/generate.py; fi
	@if [ -d tests/docs ]; then $(PYTEST) tests/docs $(ARGS); else echo "docs: nothing to check yet (no tests/docs)"; fi

sim: venv-dev  ## simulate N=1000 seeded worlds of several engines in virtual time (SEED=42 replays one)
	@$(BIN)/python -m tests.sim.fleet.worlds $(if $(SEED),--seed $(SEED),--count $(N)) $(ARGS)

sim-days: venv-dev  ## simulate N=1000 long days of one installation, and every other simulation test
	@YAFFLE_SIM_RUNS=$(N) YAFFLE_SIM_SEED=$(SEED) $(PYTEST) --timeout=0 -o faulthandler_timeout=0 tests/sim tests/sim_long $(ARGS)

chaos: venv-dev  ## kill, freeze and flood a live installation for MINUTES=60 (SEED=42 repeats one)
	@YAFFLE_CHAOS_MINUTES=$(MINUTES) YAFFLE_CHAOS_SEED=$(SEED) \
		$(PYTEST) -o faulthandler_timeout=0 tests/chaos $(ARGS)

bench: venv-dev  ## measure, both sides and the ratio (BENCH=detect runs bench/detect.py alone)
	@ran=; for script in bench/$(BENCH).py; do \
		case $$script in bench/_*) continue;; esac; \
		test -f "$$script" || continue; ran=1; \
		printf -- '-- %s\n' "$$script"; $(BIN)/python "$$script" $(ARGS) || exit 1; \
	done; test -n "$$ran" || { echo "bench: there is no bench/$(BENCH).py yet"; exit 2; }

lab-openstack: venv-dev  ## a real OpenStack on this machine, to try things on (STATE=DIR COMPUTES=2 HEAT=1 NEUTRON=1 CINDER=1 OCTAVIA=1 MISTRAL=1)
	@$(LAB) up $(STATE_WORD) $(if $(COMPUTES),--computes $(COMPUTES)) $(if $(HEAT),--heat) \
		$(if $(NEUTRON),--neutron) $(if $(CINDER),--cinder) $(if $(OCTAVIA),--octavia) $(if $(MISTRAL),--mistral) $(ARGS)

lab-openstack-down: venv-dev  ## stop that OpenStack again
	@$(LAB) down $(STATE_WORD)

lab-pacemaker: venv-dev  ## a real Pacemaker cluster with remote hosts on this machine, to pull plugs (STATE=DIR HOSTS=3 MEMBERS=1)
	@$(PCMK) $(STATE_WORD) up $(if $(HOSTS),--hosts $(HOSTS)) $(if $(MEMBERS),--members $(MEMBERS)) $(ARGS)

lab-pacemaker-down: venv-dev  ## stop that cluster again
	@$(PCMK) $(STATE_WORD) down

test-openstack: venv-dev test-deps  ## only the tests against a real OpenStack
	@$(PYTEST) -n 2 --dist loadfile tests/openstack $(ARGS)

test-tempest: venv-dev test-deps  ## all of Senlin's own API tests against Yaffle and a real OpenStack (half an hour)
	@YAFFLE_TEMPEST=whole $(PYTEST) tests/openstack/tempest $(ARGS)

test-octavia: venv-dev test-deps  ## what is said of Octavia, asked of a real one (two minutes more for its packages)
	@YAFFLE_OCTAVIA=1 $(PYTEST) tests/openstack/octavia $(ARGS)

test-mistral: venv-dev test-deps  ## recover by workflows of a real Mistral (two minutes more for its packages)
	@YAFFLE_MISTRAL=1 $(PYTEST) tests/openstack/mistral $(ARGS)

test-networks: venv-dev test-deps  ## ports and volumes of servers that are healed, with a real Neutron and a real Cinder (a quarter of an hour)
	@YAFFLE_NETWORKS=1 $(PYTEST) tests/openstack/networks $(ARGS)

bad-days: venv-dev test-deps  ## take a real cloud's services away for MINUTES=10 each, in the middle of all work (OUTAGES='bus database')
	@$(BIN)/python -m tests.openstack.bad_days --minutes $(if $(filter file,$(origin MINUTES)),10,$(MINUTES)) \
		$(if $(OUTAGES),--outages $(OUTAGES)) $(ARGS)

coverage-core: venv-dev  ## every line and branch of the deciding core is reached by its tests, or this fails
	@$(BIN)/coverage erase
	@$(BIN)/coverage run --source=yaffle.core -m pytest -q --timeout=600 -o faulthandler_timeout=0 \
		tests/unit tests/model tests/scenarios $(ARGS)
	@$(BIN)/coverage report --fail-under=100

test-deps:  ## install the programs that tests talk to, where that is possible
	@.ci/test-deps

lock:  ## resolve the dependencies again (UPGRADE=1 takes newer versions)
	@test -x "$(UV)" || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q uv; }
	@$(LOCK) pyproject.toml --group dev -o requirements-dev.lock
	@$(LOCK) pyproject.toml -c requirements-dev.lock -o requirements.lock
	@$(LOCK) --group install -o requirements-install.lock
	@$(LOCK) --group build -c requirements-dev.lock -o requirements-build.lock
	@! grep -nE '://|^-|^ *--(index|extra-index|find-links)| @ ' requirements*.lock || \
		{ echo "lock: the lines above name a place; a lock names only packages and hashes"; exit 1; }

clean:  ## remove what was made here: the environment, caches, results
	@rm -rf $(VENV) build dist site htmlcov coverage.xml .coverage .coverage.* \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src packages tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

venv-run:
	@.ci/venv run

venv-dev:
	@.ci/venv dev
