"""`list` and `doctor`: what the package has, and what this machine can do with it."""

import importlib.metadata
import platform
import sys
from typing import Any

from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.runtime import cache

PACKAGES = ("torch", "nvidia-cutlass-dsl", "apache-tvm-ffi", "numpy", "ml_dtypes", "greenlet")


def operators() -> list[dict[str, Any]]:
    """What `list` shows."""
    return [
        {
            "operator": operator.name,
            "variants": list(operator.variants),
            "architectures": list(operator.architectures),
            "forward": operator.forward,
            "backward": operator.backward,
        }
        for operator in OPERATORS.values()
    ]


def describe_operators(rows: list[dict[str, Any]]) -> str:
    """The same for people."""
    return "\n\n".join(
        f"{row['operator']}\n  variants       {', '.join(row['variants'])}\n"
        f"  architectures  {', '.join(row['architectures'])}\n"
        f"  forward        {row['forward']}\n  backward       {row['backward']}"
        for row in rows
    )


def machine() -> dict[str, Any]:
    """What `doctor` shows: versions, GPUs, for both back ends "works" or what is in the way, and where compiled kernels are kept."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version(name) for name in PACKAGES},
        "torch built for CUDA": torch.version.cuda or "none",
        "driver": driver(),
        "GPUs": gpus(),
        "simulator": simulator_verdict(),
        "GPU kernels": gpu_verdict(),
        "compiled kernels in": str(cache.folder() or "memory alone"),
    }


def version(package: str) -> str:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def driver() -> str:
    """The newest CUDA version the NVIDIA driver serves, by asking the driver's own library."""
    import ctypes

    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "none"
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)):
        return "installed, does not answer"
    return f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"


def gpus() -> list[str]:
    """The GPUs torch sees."""
    import torch

    if not torch.cuda.is_available():
        return []
    capability = torch.cuda.get_device_capability
    return [
        f"{torch.cuda.get_device_name(i)}, compute capability {capability(i)[0]}.{capability(i)[1]}"
        for i in range(torch.cuda.device_count())
    ]


def simulator_verdict() -> str:
    """Run the smallest schedule there is."""
    import torch

    import cute_kernels

    try:
        with cute_kernels.simulate():
            cute_kernels.rms_norm(torch.ones(1, 8))
    except Exception as error:  # whatever it is: to say so is what doctor is for
        return f"{type(error).__name__}: {error}"
    return "works"


def gpu_verdict() -> str:
    """Whether kernels can be launched on the current GPU."""
    from cute_kernels.runtime.errors import TargetError
    from cute_kernels.runtime.targets import here

    try:
        return f"works, {here().arch}"
    except TargetError as error:
        return str(error)


def healthy(facts: dict[str, Any]) -> bool:
    """The simulator works, and so do the kernels if there is a GPU."""
    return facts["simulator"] == "works" and (not facts["GPUs"] or facts["GPU kernels"].startswith("works"))


def describe_machine(facts: dict[str, Any]) -> str:
    """The same for people."""
    packages = facts["packages"]
    lines = {key: value for key, value in facts.items() if key != "packages"} | packages
    lines["GPUs"] = "; ".join(facts["GPUs"]) or "none"
    return "\n".join(f"{key:22} {value}" for key, value in lines.items())
