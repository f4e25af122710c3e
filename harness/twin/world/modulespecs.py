"""How Talos turns ``machine.kernel.modules`` into loaded modules: sorted, tolerant, retried."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

from harness.twin.engine import Engine, Timer
from harness.twin.world.kernel import Kernel, ModuleError
from harness.twin.world.machineconfig import ModuleSpec

_FIRST_RETRY, _GROWTH, _LONGEST_RETRY, _JITTER = 0.5, 1.5, 60.0, 0.5  # seconds; a restart backoff


class ModuleSpecs:
    """The controller that loads what a machine configuration asks for (TAL, gpu_path.md 2).

    Specs are kept by module name and taken in the order of their names, whatever order they were
    declared in. One that fails does not stop the others; the whole list is gone through again
    after a growing pause, for as long as anything fails. Nothing is ever unloaded.
    """

    def __init__(
        self, kernel: Kernel, specs: Iterable[ModuleSpec], engine: Engine, rng: random.Random
    ) -> None:
        self._kernel = kernel
        self._specs = dict(sorted((spec.name, spec) for spec in specs))
        self._engine = engine
        self._rng = rng
        self._pause = _FIRST_RETRY
        self._timer: Timer | None = None
        self._stopped = False

    @property
    def specs(self) -> tuple[ModuleSpec, ...]:
        """What is asked for, by id."""
        return tuple(self._specs.values())

    def reconcile(self) -> None:
        """Load everything that can be loaded; come back later for the rest."""
        if self._stopped:
            return
        errors = [error for spec in self.specs if (error := self._load(spec))]
        if not errors:
            return
        self._report(errors)
        delay = self._pause * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
        self._pause = min(self._pause * _GROWTH, _LONGEST_RETRY)
        self._timer = self._engine.after(delay, self.reconcile, "kernel modules: load again")

    def stop(self) -> None:
        """The machine goes down: no more tries."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _load(self, spec: ModuleSpec) -> str:
        try:
            self._kernel.load(spec.name, spec.parameters)
        except ModuleError as error:
            return f'error loading module "{spec.name}": {error}'
        return ""

    def _report(self, errors: list[str]) -> None:
        plural = "error" if len(errors) == 1 else "errors"
        listed = "".join(f"\t* {error}\n" for error in errors)
        fields = {
            "component": "controller-runtime",
            "controller": "runtime.KernelModuleSpecController",
            "error": f"{len(errors)} {plural} occurred:\n{listed}\n",
        }
        self._kernel.log(f"[talos] controller failed {json.dumps(fields)}", console=False)
