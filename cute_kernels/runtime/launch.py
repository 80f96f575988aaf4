"""One kernel, run: on the GPU its tensors are on, or in the simulator. Kernels are looked up in memory, then on disk, then compiled."""

import threading
from typing import Any

import torch

from cute_kernels.plan import Plan, Target
from cute_kernels.runtime import cache
from cute_kernels.runtime.errors import TargetError, refuse
from cute_kernels.runtime.occupancy import clusters_at_once
from cute_kernels.runtime.simulate import current
from cute_kernels.runtime.targets import MEANWHILE, target_of

KERNELS = 1024  # static configurations kept: far more than a model has, and a bound
_compiling = threading.Lock()
_ready: dict[Plan, Any] = {}


def target_for(operator: str, x: torch.Tensor, argument: str = "x") -> Target:
    """What a kernel on `x`, an operator's `argument`, is planned for: the GPU it is on, or the simulated one."""
    if x.is_cuda:
        return target_of(x.device.index)
    simulation = current()
    if x.device.type != "cpu" or simulation is None:
        takes = "a CUDA tensor, or a CPU tensor inside `with cute_kernels.simulate():`, which runs its schedule in the simulator"
        refuse(operator, argument, f"on {x.device}", takes)
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
    """The kernel of `plan`; a thread that asks for one while another is being compiled waits, one that asks for a ready one does not."""
    kernel = _ready.get(plan)
    if kernel is None:
        with _compiling:
            kernel = _ready.get(plan)
            if kernel is None:
                kernel = _ready[plan] = obtain(plan)
            if len(_ready) > KERNELS:
                del _ready[next(iter(_ready))]
    return kernel


def obtain(plan: Plan) -> Any:
    """From the disk; else compiled, and kept there for the next process; from memory alone where the disk cannot help."""
    from cute_kernels import device

    key = cache.key(plan, device.toolchain()) if cache.folder() else ""
    if not key:
        return compile_now(plan)
    if kernel := from_disk(plan, key):
        return kernel
    with cache.locked(key):
        if kernel := from_disk(plan, key):  # the process that was waited for has compiled it
            return kernel
        kernel = compile_now(plan)
        library = device.library(kernel)
        if library is None:
            cache.warn("compiled kernels are not kept: no working linker (cc, gcc, clang or ld)")
            return kernel
        return (cache.store(key, plan, library) and from_disk(plan, key)) or kernel


def compile_now(plan: Plan) -> Any:
    """Compile, or say on one line that neither the disk nor this machine has the kernel."""
    from cute_kernels import device

    try:
        return device.compile(plan)
    except ImportError as error:
        where = cache.folder() or "the cache, which is switched off"
        raise TargetError(
            f"{plan.operator}: no kernel for {plan.problem} in {where}, and {error}; {MEANWHILE}"
        ) from error


def from_disk(plan: Plan, key: str) -> Any:
    """The kernel kept under `key`; None if there is none, or none that loads here."""
    from cute_kernels import device

    path = cache.find(key)
    if path is None:
        return None
    try:
        return device.load(plan, path)
    except OSError:
        return None
