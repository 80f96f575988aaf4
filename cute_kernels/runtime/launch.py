"""One kernel, run: on the GPU its tensors are on, or in the simulator. Compiled kernels are kept for the process's life."""

import functools
import threading
from typing import Any

import torch

from cute_kernels.plan import Plan, Target
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.occupancy import clusters_at_once
from cute_kernels.runtime.simulate import current
from cute_kernels.runtime.targets import target_of

KERNELS = 1024  # static configurations kept: far more than a model has, and a bound
_compiling = threading.Lock()


def target_for(operator: str, x: torch.Tensor) -> Target:
    """What a kernel on `x` is planned for: the GPU it is on, or the simulated one."""
    if x.is_cuda:
        return target_of(x.device.index)
    simulation = current()
    if x.device.type != "cpu" or simulation is None:
        takes = "a CUDA tensor, or a CPU tensor inside `with cute_kernels.simulate():`, which runs its schedule in the simulator"
        refuse(operator, "x", f"on {x.device}", takes)
    return simulation.target


def execute(plan: Plan, tensors: dict[str, torch.Tensor]) -> None:
    """Run `plan` on `tensors`, by the names it gives them, outputs included. Without rows nothing runs."""
    x = tensors[plan.tensors[0].name]
    if not x.shape[0]:
        return
    if x.is_cuda:
        launch(plan, tensors, x)
    elif simulation := current():
        simulation.run(plan, tensors, blocks_for(plan, x))


def launch(plan: Plan, tensors: dict[str, torch.Tensor], x: torch.Tensor) -> None:
    """Launch on the current stream of the device `x` is on, compiling first where this process has not yet."""
    index = x.device.index
    kernel = compiled(plan)
    blocks = blocks_for(plan, x)
    if index == torch.cuda.current_device():
        kernel(tensors, blocks)
    else:
        with torch.cuda.device(index):
            kernel(tensors, blocks)


def blocks_for(plan: Plan, x: torch.Tensor) -> int:
    """CTAs that the kernel runs with on `x`: partial sums have a row for each cluster of them."""
    if x.is_cuda:
        return plan.blocks(x.shape[0], clusters_at_once(x.device.index, plan.cluster) * plan.ctas_an_sm)
    from cute_kernels.simulator.run import CLUSTERS

    return plan.blocks(x.shape[0], CLUSTERS)


def compiled(plan: Plan) -> Any:
    """The kernel of `plan`; a second thread that asks for it meanwhile waits for the first one's."""
    with _compiling:
        return _compiled(plan)


@functools.lru_cache(maxsize=KERNELS)
def _compiled(plan: Plan) -> Any:
    from cute_kernels import device

    return device.compile(plan)
