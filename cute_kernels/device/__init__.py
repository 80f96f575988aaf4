"""The GPU back end: role programs traced by NVIDIA's CuTe DSL. `compile` is all the rest of the package uses."""

from cute_kernels.device.compile import CompiledKernel, compile

__all__ = ["CompiledKernel", "compile"]
