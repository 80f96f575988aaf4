"""Fused GPU kernels for PyTorch whose schedules also run on a CPU. The public names, imported when first used.

Importing this package imports neither torch nor the CuTe DSL and makes no CUDA context.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cute_kernels import nn as nn
    from cute_kernels.linear_norm.op import linear_norm as linear_norm
    from cute_kernels.norms.op import layer_norm as layer_norm
    from cute_kernels.norms.op import rms_norm as rms_norm
    from cute_kernels.runtime.simulate import simulate as simulate

__version__ = "0.1.0"

# Public name -> the module that defines it.
HOMES = {
    "layer_norm": "cute_kernels.norms.op",
    "linear_norm": "cute_kernels.linear_norm.op",
    "mhc_post": "cute_kernels.hyper_connection.op",
    "mhc_post_pre": "cute_kernels.hyper_connection.compose",
    "mhc_pre": "cute_kernels.hyper_connection.compose",
    "mhc_project": "cute_kernels.hyper_connection.project",
    "mhc_pre_big_fuse": "cute_kernels.hyper_connection.op",
    "mhc_pre_big_fuse_with_prenorm": "cute_kernels.hyper_connection.op",
    "rms_norm": "cute_kernels.norms.op",
    "simulate": "cute_kernels.runtime.simulate",
}


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("cute_kernels.nn")
    if name not in HOMES:
        raise AttributeError(f"module 'cute_kernels' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES, "nn"})


class Package(ModuleType):
    """Where an operator and its folder share a name, `cute_kernels.<name>` is the operator.

    The import system would bind the folder's module to that name as soon as anything in it is imported. The price:
    `import cute_kernels.linear_norm.plan as p` finds the operator on its way and fails; `from cute_kernels.linear_norm
    import plan` and `from cute_kernels.linear_norm.plan import …` work.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = Package
