# `make run` and `make test` are all a newcomer needs; both set up their own environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Warnings are errors, but for sockets that a test's throw-away server has not yet said goodbye on:
# Python reports those in whichever test happens to run when they are collected.
STRICT := -W error -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

.PHONY: help run test prove prove-some qemu qemu-prove qemu-packages lint bench peers docs lock clean

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

run: $(READY)  ## drive the embedded lab and sign what was seen
	@$(BIN)/hil run $(ARGS)

test: $(READY) lint  ## lint, types, import contracts, and the project's own tests
	$(BIN)/pytest $(STRICT) -n 2 --dist loadfile -q tests $(ARGS)

prove: $(READY)  ## run the scenarios under every fault of the catalogue
	$(BIN)/hil prove $(ARGS)

# One or two faults of each family: what `.ci/run` has time for. The whole catalogue is `make prove`.
PROVE_SOME := gpu-not-permitted no-modules-block params-lost-to-dependency \
  boot-install-schematic-drift legacy-operator-default strategy-envvar stale-pod-no-injection \
  apid-port-50001-missing golden-absent silent-host-assisted-fallback disk-not-grown \
  cross-ns-rbac-missing accepted-not-applied golden-absent-unrefused pool-space-exhausted

# What the mini-lab runs and is built with; Debian's names.
QEMU_PACKAGES := qemu-system-x86 qemu-utils e2fsprogs gcc libc6-dev make openssh-client
# Faults of each family that show soon; the whole catalogue takes an hour (`make qemu-prove`).
QEMU_FAULTS := module-missing driver-asked-late cdi-generator-fails \
  drbd-link-cut drbd-out-of-sync drbd-split-brain-left drbd-no-verify-alg

prove-some: $(READY)  ## the same under some faults of each family
	$(BIN)/hil prove $(addprefix --fault ,$(PROVE_SOME)) $(ARGS)

qemu: $(READY) qemu-packages  ## the mini-lab: real guests, real DRBD; installs Debian packages
	$(BIN)/hil run --lab inventory/qemu-mini.yaml --lane mini $(ARGS)
	HIL_QEMU_TESTS=1 $(BIN)/pytest $(STRICT) -q tests/qemulab
	$(BIN)/hil prove --lab inventory/qemu-mini.yaml $(addprefix --fault ,$(QEMU_FAULTS))
	$(BIN)/hil clean

qemu-prove: $(READY) qemu-packages  ## the mini-lab's scenarios under every fault that it has
	$(BIN)/hil prove --lab inventory/qemu-mini.yaml

qemu-packages:  ## install what the mini-lab needs, where it is not there (Debian, as root)
	@dpkg -s $(QEMU_PACKAGES) >/dev/null 2>&1 \
	  || (apt-get -qq update && apt-get -qq -y install --no-install-recommends $(QEMU_PACKAGES))
	@apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get -qq update

lint: $(READY)  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## print the figures of docs/performance.md
	$(BIN)/python -m bench

peers: $(READY)  ## the environments of other clients, for tests/clients (.peers, 410 MB)
	@$(BIN)/python -m bench.peers $(ARGS)

docs: .venv-docs/.ready  ## the pages as a site, in build/docs; a link that leads nowhere ends it
	@.venv-docs/bin/sphinx-build -q -W --keep-going -E -b html -c docs/site . build/docs
	@echo "build/docs/docs/site/index.html"

lock: $(READY)  ## resolve the dependencies anew (needs the network)
	$(BIN)/pip install pip-tools
	$(BIN)/pip-compile --strip-extras --generate-hashes --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --allow-unsafe --extra dev \
	  -o requirements/lock.txt pyproject.toml
	$(BIN)/pip-compile --strip-extras --generate-hashes --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --allow-unsafe \
	  -o requirements/docs.txt requirements/docs.in

clean:  ## remove the environments and the kept runs
	rm -rf $(VENV) .venv-docs .peers build reports/out

# the stamp is newer than what it was made from, so a second run needs no network
$(READY): requirements/lock.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("hil needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; say: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@echo "setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q harness scenarios
	@touch $(READY)

.venv-docs/.ready: requirements/docs.txt
	@echo "setting up .venv-docs (once)"
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch .venv-docs/.ready
