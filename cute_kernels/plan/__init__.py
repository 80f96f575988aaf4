"""A kernel's plan: plain data, a pure function of (problem, target). Imports neither torch nor NumPy nor the DSL."""

from cute_kernels.plan.memory import Buffer, Memory, Region, TensorMemory
from cute_kernels.plan.plan import Plan, Product, Staging, Tensor
from cute_kernels.plan.ring import Drain, Fill, Ring
from cute_kernels.plan.roles import Role, Roles
from cute_kernels.plan.target import SM90A, SM100A, Target, target
from cute_kernels.plan.types import DTYPES, PlanError, itemsize

__all__ = [
    "DTYPES",
    "SM90A",
    "SM100A",
    "Buffer",
    "Drain",
    "Fill",
    "Memory",
    "Plan",
    "PlanError",
    "Product",
    "Region",
    "Ring",
    "Role",
    "Roles",
    "Staging",
    "Target",
    "Tensor",
    "TensorMemory",
    "itemsize",
    "target",
]
