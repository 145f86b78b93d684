# pvc-prebinder: common tasks as one-word targets. `make` lists them. Needs make, Python 3.11 to 3.14, and PyPI or a
# mirror of it; nothing is installed outside .venv.

.DEFAULT_GOAL := help
.PHONY: help install release install-manifest manifests-check demo test e2e skew sidecars provisioner autoscaler image lock docs check bench soak mutants clean

CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
# Newer ones have to compile dependencies that PyPI does not have compiled for them yet.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	if $$python -c '$(SUPPORTED)' 2>/dev/null; then echo $$python; break; fi; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
# A subset of the tests: make test ARGS='tests/kube -k quantity'
ARGS ?=
# Compiled modules are kept, also where images for containers turn that off: tests start hundreds of processes, and each
# would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with the command .venv/bin/pvc-prebinder (editable)

$(INSTALLED): pyproject.toml
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c '$(SUPPORTED)' 2>/dev/null; then \
		echo "pvc-prebinder needs Python 3.11 to 3.14; found $$($(or $(PYTHON),python3) --version 2>&1 | head -n 1)." >&2; \
		echo "Name one: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python3.13" >&2; exit 1; fi
	@echo "Installing into .venv with $$($(PYTHON) --version); the first time takes a minute or two."
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[devcluster,tracing]' --group dev
	@touch $@

demo: install ## Watch pods get all their volumes in one zone, on a real control plane on this machine
	@$(BIN)/pvc-prebinder demo

test: install ## Run every test (the first time builds a control plane: some 8 minutes)
	@$(BIN)/python -m devcluster.build
	@$(BIN)/python -m tests.manifests.tools
	@echo "The longest stories come first: the percentage hardly moves for some minutes."
	@$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

# The image's base: a reference, pinned by digest for a release, or `debian`, which builds one from Debian packages
BASE ?= docker.io/library/python:3.13-slim
IMAGE := dist/pvc-prebinder-0.1.0.tar

image: install ## Build the container image into dist/ with buildah: make image BASE=debian
	@SOURCE="$(SOURCE)" $(BIN)/python -m devcluster.build.image --base $(BASE) --archive $(IMAGE)

# What a release is given: DOMAIN of its annotations and configuration, SOURCE and DOWNLOAD addresses, KEY to sign with,
# PLATFORM of the image (docs/releasing.md)
release: install ## Make all files of a release in dist/release: make release DOMAIN=example.com KEY=key.pem
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group release
	@$(BIN)/python -m release $(if $(DOMAIN),--domain $(DOMAIN)) $(if $(SOURCE),--source $(SOURCE)) \
		$(if $(DOWNLOAD),--download $(DOWNLOAD)) $(if $(KEY),--key $(KEY)) \
		$(if $(PLATFORM),--image $(PLATFORM) --base $(BASE))

e2e: install ## Run the stories on a real node (Linux, root): make e2e BASE=debian
	@$(BIN)/pvc-prebinder dev devcluster check --image-base $(BASE)
	@$(BIN)/python -m devcluster.build node
	@$(BIN)/python -m tests.manifests.tools helm
	@SOURCE="$(SOURCE)" $(BIN)/python -m devcluster.build.image --base $(BASE) --archive $(IMAGE)
	@PVC_PREBINDER_IMAGE="$(abspath $(IMAGE))" $(BIN)/pytest tests/e2e $(ARGS)

# The stories that depend most on the behaviour of Kubernetes itself
SKEW := modes complete committed_pods interference match_as_scheduler rules_as_scheduler bind_volumes extender \
	quarantine gate_policy scheduler why kubernetes_1_37

skew: install ## Run the core stories on another version of Kubernetes: make skew KUBERNETES=1.36
	@[ -n "$(KUBERNETES)" ] || { echo "Name a version: make skew KUBERNETES=1.36" >&2; exit 1; }
	@PVC_PREBINDER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m devcluster.build
	@PVC_PREBINDER_KUBERNETES=$(KUBERNETES) $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder \
		$(SKEW:%=tests/scenarios/*/test_%.py) $(ARGS)

sidecars: install ## Run the stories with real CSI sidecars: external-provisioner and the others (first builds them)
	@$(BIN)/python -m devcluster.build sidecars
	@$(BIN)/pytest tests/scenarios/sidecars $(ARGS)

provisioner: install ## Run the core of these stories, with external-provisioner (first builds it)
	@$(BIN)/python -m devcluster.build provisioner
	@$(BIN)/pytest tests/scenarios/sidecars/test_provision_mode.py $(ARGS)

autoscaler: install ## Run the stories with a real autoscaler, Karpenter (first builds it)
	@$(BIN)/python -m devcluster.build autoscaler
	@$(BIN)/pytest tests/scenarios/autoscaler $(ARGS)

lock: install ## Pin what goes into the image: image/*.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lock
	@$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
		--no-annotate --no-header \
		--extra tracing --upgrade pyproject.toml --output-file image/runtime.lock
	@printf 'hatchling>=1.27,<2\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --upgrade - --output-file image/build.lock

docs: install ## Write the documentation as a site (dist/site) and as man pages (dist/man)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python docs/generate_man_pages.py dist/man
	@echo "dist/site: serve it as it is. dist/man: man -l dist/man/pvc-prebinder-why.1"

check: install ## Check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

manifests-check: install ## Check manifests/ with Helm and kubeconform, too (the first time builds them: some minutes)
	@MANIFESTS_CHECK=1 $(BIN)/pytest --timeout 1200 tests/manifests

install-manifest: install ## Write manifests/base as one file, dist/install.yaml
	@mkdir -p dist
	@$(BIN)/python -m tests.manifests.tools render manifests/base > dist/install.yaml
	@echo "dist/install.yaml: name your image in it, or build it with kustomize (docs/install.md)."

bench: install ## Measure, print a table and write bench/results/*.json
	@$(BIN)/python -m devcluster.build
	@$(BIN)/python -m bench

soak: install ## Random users and faults, every state checked: make soak MINUTES=10 SEED=7; ALL=yes adds StatefulSets and pools
	@$(BIN)/python -m devcluster.build
	@$(BIN)/python -m soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(ALL),--sets --pools)

mutants: install ## Count the defects that unit tests find: make mutants ROOMS='csi/health kube/rules' SEED=1
	@$(BIN)/python -m bench.mutants $(if $(ROOMS),--rooms $(ROOMS)) $(if $(SEED),--seed $(SEED))

clean: ## Remove .venv and caches (not the built control plane in the user's cache directory)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist bench/results soak/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
