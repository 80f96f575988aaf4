"""Compiled kernels as shared libraries: linked where they were compiled, loaded by tvm-ffi wherever the DSL's runtime library is.

Needs no compiler: neither the DSL's Python package nor its compiler library is imported here, so a kernel loads in milliseconds,
and also on a machine that could not have compiled it.
"""

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from cute_kernels.plan import Plan

NAME = "kernel"  # of the one function in each library
RUNTIME = "libcute_dsl_runtime.so"
LINKERS = ("cc", "gcc", "clang", "ld")
# Variables of the DSL that leave code as it is: where to log and cache, and what compile() always says itself.
HARMLESS = re.compile("CUTE_DSL_(LOG_.*|.*CACH.*|LIBS|ARCH)")


class CompiledKernel:
    """A compiled plan. Call it with the tensors, by name, and the number of CTAs."""

    def __init__(self, plan: Plan, run: Any) -> None:
        self.plan, self.run = plan, run
        self.names = tuple(t.name for t in plan.tensors)

    def __call__(self, tensors: dict[str, Any], blocks: int) -> None:
        """Launch on PyTorch's current stream. Tensors are torch's, of the dtypes and extents of the plan."""
        self.run(tuple(map(tensors.__getitem__, self.names)), blocks)


def load(plan: Plan, path: Path) -> CompiledKernel:
    """The kernel of `plan` from its library, which stays loaded: a captured graph may hold on to it. OSError if it does not fit here."""
    import tvm_ffi

    resident(str(runtime_library()))
    try:
        return CompiledKernel(plan, tvm_ffi.load_module(path).get_function(NAME))
    except (RuntimeError, AttributeError) as error:
        raise OSError(f"{path}: {error}") from error


def link(code: bytes) -> bytes | None:
    """A shared library of an object file; None on a machine without a linker that works. It names the libraries it needs, and no path."""
    import tvm_ffi

    tool = next(filter(None, map(shutil.which, LINKERS)), None)
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(code)
        needs = [str(runtime_library()), tvm_ffi.libinfo.find_libtvm_ffi()]
        done = subprocess.run([tool, "-shared", "-o", library, source, *needs], check=False, capture_output=True)
        return None if done.returncode else library.read_bytes()


@functools.cache
def resident(library: str) -> ctypes.CDLL:
    """A library in this process, found from then on by its bare name, its symbols kept from everybody else's."""
    return ctypes.CDLL(library)


def toolchain() -> dict[str, Any]:
    """Whatever code depends on beside our sources and the plan: versions, host, and flags from the environment."""
    flags = {name: value for name, value in os.environ.items() if name.startswith("CUTE_DSL_")}
    return {
        "dsl": importlib.metadata.version("nvidia-cutlass-dsl"),
        "tvm_ffi": importlib.metadata.version("apache-tvm-ffi"),
        "toolkit": runtime_library().parent.parent.name,
        "host": f"{platform.system()} {platform.machine()}",
        "flags": {name: value for name, value in flags.items() if not HARMLESS.fullmatch(name)},
    }


@functools.cache
def runtime_library() -> Path:
    """The DSL's runtime library: the one CUTE_DSL_LIBS names, else of the newest toolkit installed that the driver serves."""
    named = [Path(path) for path in os.environ.get("CUTE_DSL_LIBS", "").split(os.pathsep) if path.endswith(RUNTIME)]
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    folders = spec.submodule_search_locations or () if spec else ()
    found = named or [path for folder in folders for path in Path(folder).glob(f"cu*/lib/{RUNTIME}")]
    if not found:
        raise OSError(f"{RUNTIME} is not installed; it comes with nvidia-cutlass-dsl")
    newest = sorted(found, key=toolkit, reverse=True)
    return next((path for path in newest if toolkit(path) <= driver()), newest[0])


def toolkit(library: Path) -> int:
    """The CUDA version a runtime library is for, from its folder: cu13 -> 13."""
    return int("0" + library.parent.parent.name.removeprefix("cu"))


@functools.cache
def driver() -> float:
    """The newest CUDA version that the driver serves; anything without a driver. Makes no context."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0:
            return number.value // 1000
    except OSError:
        pass
    return float("inf")
