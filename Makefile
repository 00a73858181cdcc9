# `make run` and `make test` need Python 3.11, make and (where system programs are missing) root;
# the rest they fetch. Each environment is rebuilt only when its lock file or a pyproject.toml changed.
PYTHON ?= python3
SEEDS ?= 0-19
MINUTES ?= 5
STORE ?= sqlite
ROWS ?= 10000000
ARGS ?=

UV := .venv-tools/bin/uv
CODE := $(wildcard src systems/src tests benchmarks examples tools/*.py)

export UV_PYTHON_DOWNLOADS := never
export UV_HTTP_TIMEOUT ?= 180

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check audit format simulate kill-sweep claim-cost console-load smoke-verdicts screenshots bench profile peers docs lock clean system

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv-run/.ready ## start Homing: `homing serve` on loopback (ARGS="--port 8026")
	.venv-run/bin/homing serve $(ARGS)

test: .venv/.ready system ## run the tests, two files at a time (ARGS="-k name -n 0")
	.venv/bin/pytest --numprocesses 2 --dist loadfile $(ARGS)

check: .venv/.ready ## lint, format, types and the dependency rule
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy $(CODE)
	.venv/bin/lint-imports

audit: .venv/.ready ## look for known vulnerabilities in the locked packages (needs the network)
	.venv/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/run.txt
	.venv/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/dev.txt

format: .venv/.ready ## rewrite the code as `check` wants it
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

simulate: .venv/.ready ## run the engine under seeded faults (SEEDS=100-119)
	.venv/bin/python -m tests.simulation.simulator $(SEEDS)

kill-sweep: .venv/.ready system ## kill, freeze and stop worker processes for MINUTES=5 (STORE=sqlite|jsonl|postgresql) and compare every ledger
	.venv/bin/python -m tests.faults.sweep --minutes $(MINUTES) --store $(STORE)

claim-cost: .venv/.ready system ## compare a claim from PostgreSQL before and after ROWS=10000000 delivered rows
	ROWS=$(ROWS) .venv/bin/pytest tests/faults/test_postgres_plans.py -n 0 -q -s -k cost

smoke-verdicts: .venv/.ready ## before a deployment of verdict mails: retries and dead letter against a fake of Graph
	.venv/bin/pytest -n 0 -q tests/conformance/verdicts/test_programs.py -k "ver_02 or ver_03"

console-load: .venv/.ready system ## the console with many rows, much traffic and many viewers (ARGS="--rows 1000000 --minutes 10")
	.venv/bin/python -m tests.browser.load $(ARGS)

screenshots: .venv/.ready system ## take the pictures of the console guide again (ARGS="--all FOLDER" for all pages)
	.venv/bin/python -m tests.browser.screenshots $(ARGS)

bench: .venv/.ready .venv-peers/.ready system ## measure Homing beside its peers
	.venv/bin/python -m benchmarks $(ARGS)

profile: .venv/.ready ## print CPU time and calls per delivery by part
	.venv/bin/python -m benchmarks.profile

peers: .venv-peers/.ready ## install the benchmark's peers in an environment of their own

docs: .venv/.ready ## write the generated documents again
	.venv/bin/python tools/docs.py $(ARGS)

lock: $(UV) ## resolve the locked requirements again (ARGS=--upgrade for the newest)
	@tools/lock $(UV) $(ARGS)

clean: ## remove environments and caches
	rm -rf .venv .venv-run .venv-peers .venv-tools build dist
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis
	find src systems tests benchmarks examples tools -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

system:
	@tools/ensure-system

$(UV): requirements/uv.txt
	@tools/ensure-uv $(PYTHON)

# $(1): the environment, $(2): its lock file
define sync
	@echo "==> $(1): installing $(2)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(1)
	@$(UV) pip sync --quiet --require-hashes --python $(1)/bin/python $(2)
	@$(UV) pip install --quiet --no-deps --no-build-isolation --python $(1)/bin/python --editable . --editable systems
	@touch $@
endef

.venv/.ready: requirements/dev.txt pyproject.toml systems/pyproject.toml | $(UV)
	$(call sync,.venv,requirements/dev.txt)

.venv-run/.ready: requirements/run.txt pyproject.toml systems/pyproject.toml | $(UV)
	$(call sync,.venv-run,requirements/run.txt)

.venv-peers/.ready: benchmarks/peers/requirements.txt | $(UV)
	@echo "==> .venv-peers: installing $<"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-peers
	@$(UV) pip install --quiet --python .venv-peers/bin/python --requirement $<
	@.venv-peers/bin/python -m benchmarks.peers.node_peers install || echo "==> the node peers will not run"
	@touch $@
