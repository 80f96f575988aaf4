"""`with cute_kernels.simulate():` — operators accept CPU tensors and run their schedule in the simulator."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch

from cute_kernels.plan import Plan, Target, target
from cute_kernels.runtime.bridge import as_array

_current: ContextVar["Simulation | None"] = ContextVar("cute_kernels_simulation", default=None)


@dataclass(eq=False)
class Simulation:
    """How operators are simulated, and what came of it: `plans` and `reports` have one entry for each kernel that ran."""

    target: Target
    seed: int
    strategy: Any
    options: dict[str, Any]
    plans: list[Plan] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)

    def run(self, plan: Plan, tensors: dict[str, torch.Tensor], blocks: int) -> None:
        """Run one kernel on `blocks` CTAs. Outputs start as NaN, so that an element nobody writes shows."""
        from cute_kernels import simulator

        for tensor in plan.tensors:
            if tensor.output:
                tensors[tensor.name].fill_(float("nan"))
        arrays = {name: as_array(tensor) for name, tensor in tensors.items()}
        report = simulator.run(plan, arrays, seed=self.seed, strategy=self.strategy, blocks=blocks, **self.options)
        self.reports.append(report)
        self.plans.append(plan)


@contextlib.contextmanager
def entered(simulation: Simulation | None) -> Iterator[Simulation | None]:
    """Make `simulation` the current one; None leaves things as they are. Backward passes re-enter their forward's."""
    token = _current.set(simulation or _current.get())
    try:
        yield simulation
    finally:
        _current.reset(token)


@contextlib.contextmanager
def simulate(
    arch: str = "sm_90a", seed: int = 0, check: bool = True, strategy: Any = None, trace: bool = False
) -> Iterator[Simulation]:
    """Inside, operators on CPU tensors run on a simulated `arch`; so does the backward of what was computed inside.

    seed, strategy  fix the order in which roles and copies make progress (a name of simulator.STRATEGIES, or an object);
                    a run can be replayed from them
    check           watch for races, early reads, leaks and the like, and raise at the first
    trace           keep the spans from which study draws a timeline

    It holds for this thread (and async task) alone: other threads, pools included, enter it themselves. A backward pass,
    whichever thread runs it, is under the simulation of its forward.

    Yields the Simulation, whose `reports` say what was counted. Tensors on a GPU run there as ever.
    """
    options: dict[str, Any] = {"trace": trace} if check else {"trace": trace, "observers": ()}
    simulation = Simulation(target(arch), seed, strategy, options)
    with entered(simulation):
        yield simulation


def current() -> Simulation | None:
    """The simulation in force, if any."""
    return _current.get()
