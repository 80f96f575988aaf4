"""One kernel, run: on the GPU its tensors are on, or in the simulator. Kernels are looked up in memory, then on disk, then compiled."""

import importlib.metadata
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

ROWS_LIMIT = 1 << 31  # kernels count rows in 32 bits


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
    if x.shape[0] >= ROWS_LIMIT:
        raise ValueError(f"{plan.operator}: {x.shape[0]} rows; a call takes fewer than 2^31")
    if x.is_cuda:
        launch(plan, tensors, x)
    elif simulation := current():
        simulation.run(plan, tensors, blocks_for(plan, x))


def launch(plan: Plan, tensors: dict[str, torch.Tensor], x: torch.Tensor) -> None:
    """Launch on the current stream of the device `x` is on, compiling first where this process has not yet."""
    if x.device.index == torch.cuda.current_device():
        compiled(plan)(tensors, blocks_for(plan, x))
    else:
        with torch.cuda.device(x.device.index):
            launch(plan, tensors, x)


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
        refuse_in_a_capture(plan)
        with _compiling:
            kernel = _ready.get(plan)
            if kernel is None:
                kernel = _ready[plan] = obtain(plan)
            if len(_ready) > KERNELS:
                del _ready[next(iter(_ready))]
    return kernel


def refuse_in_a_capture(plan: Plan) -> None:
    """Loading a kernel takes driver calls that may break the capture of a CUDA graph, and that would be seen only at its end."""
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{plan.operator}: the first call of {plan.problem} is inside the capture of a CUDA graph; "
            "call it once before the capture, which loads its kernel"
        )


def obtain(plan: Plan) -> Any:
    """From the disk; else compiled, and kept there for the next process; from memory alone where the disk cannot help."""
    key = key_of(plan)
    if not key:
        return compile_now(plan)
    if kernel := from_disk(plan, key):
        return kernel
    with cache.locked(key):
        if kernel := from_disk(plan, key):  # the process that was waited for has compiled it
            return kernel
        kernel = compile_now(plan)
        return (keep(plan, key, kernel) and from_disk(plan, key)) or kernel


def key_of(plan: Plan) -> str:
    """What the kernel of `plan` is called on disk; "" where the disk is not used."""
    from cute_kernels import device

    if not cache.folder():
        return ""
    try:
        return cache.key(plan, device.toolchain())
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        cache.warn(f"compiled kernels are neither kept nor looked for: {error}")
        return ""


def keep(plan: Plan, key: str, kernel: Any) -> bool:
    """Whether a kernel just compiled is on disk now; what is in the way is a warning."""
    from cute_kernels import device

    try:
        library = device.library(kernel)
    except OSError as error:  # the temporary folder's disk may be full too
        cache.warn(f"compiled kernels are not kept: {error}")
        return False
    if library is None:
        cache.warn("compiled kernels are not kept: no working linker (cc, gcc, clang or ld)")
        return False
    return cache.store(key, plan, library) is not None


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
