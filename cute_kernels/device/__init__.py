"""The GPU back end: role programs traced by NVIDIA's CuTe DSL. These functions are all the rest of the package uses.

The DSL is imported when something is compiled; loading a compiled kernel needs none of it.
"""

from cute_kernels.device.objects import CompiledKernel, load, toolchain
from cute_kernels.plan import Plan

__all__ = ["CompiledKernel", "compile", "library", "load", "toolchain"]


def compile(plan: Plan, keep: str = "") -> CompiledKernel:
    """Compile `plan`. `keep` names a folder where PTX and cubin are left for reading. ImportError where there is no compiler."""
    try:
        from cute_kernels.device import compiler
    except (ImportError, RuntimeError) as error:
        raise ImportError(f"the CuTe DSL does not import here: {str(error).splitlines()[0]}") from error
    return compiler.compile(plan, keep)


def library(kernel: CompiledKernel) -> bytes | None:
    """A kernel just compiled as a shared library that `load` takes; None on a machine without a linker."""
    from cute_kernels.device import compiler, objects

    return objects.link(compiler.export(kernel))
