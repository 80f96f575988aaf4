"""Which target a GPU is, or one line on why there is none. Asks torch and the import system; makes no context on its own."""

import functools
import importlib.util
import platform

import torch

from cute_kernels.plan import SM90A, SM100A, Target
from cute_kernels.runtime.errors import TargetError

BY_CAPABILITY = {target.capability: target for target in (SM90A, SM100A)}
NEEDED = "needed is a GPU of compute capability 9.0 (Hopper: H100, H200) or 10.0 (Blackwell: B200)"
MEANWHILE = "meanwhile `with cute_kernels.simulate():` runs the schedules on CPU tensors"


@functools.cache
def target_of(device: int) -> Target:
    """The target of a CUDA device; TargetError says what is missing."""
    if reason := obstacle():
        raise TargetError(f"{reason}; {MEANWHILE}")
    return target_of_capability(torch.cuda.get_device_capability(device), torch.cuda.get_device_name(device))


def here() -> Target:
    """The target of the current CUDA device; TargetError says what is missing."""
    return target_of(0 if obstacle() else torch.cuda.current_device())


@functools.cache
def target_of_capability(capability: tuple[int, int], name: str) -> Target:
    """The target of one compute capability: what was compiled for one runs on no other."""
    if capability not in BY_CAPABILITY:
        found = f"{name} has compute capability {capability[0]}.{capability[1]}"
        raise TargetError(f"{found}; {NEEDED}; {MEANWHILE}")
    return BY_CAPABILITY[capability]


@functools.cache
def obstacle() -> str:
    """Why nothing can run on a GPU here, whichever it is; "" if something can."""
    if torch.version.hip:
        return "this torch is built for AMD GPUs; the kernels are for NVIDIA GPUs"
    if not torch.version.cuda:
        return f"this torch ({torch.__version__}) is built without CUDA; needed is a CUDA build"
    if not torch.cuda.is_available():
        return f"torch finds no usable GPU (no device, or a driver too old for CUDA {torch.version.cuda}); {NEEDED}"
    if not has_dsl():
        on = "" if platform.system() == "Linux" else f", which does not exist for {platform.system()}"
        return f"the CuTe DSL is not installed; needed is nvidia-cutlass-dsl >= 4.8.1{on}"
    return ""


def has_dsl() -> bool:
    """Whether the CuTe DSL is installed; it is not imported to find out."""
    return importlib.util.find_spec("cutlass") is not None
