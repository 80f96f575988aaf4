"""The kernels the simulator's tests run, at sizes at which a run takes milliseconds, with their answers in float64."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cute_kernels import simulator
from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, SM100A, Plan, Roles, Target
from cute_kernels.simulator.memory import NUMPY

TINY = Tiling(rows=16, columns_most=16, depth=8, part=4)
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0}  # relative, of one rounding
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """A plan, its arrays (outputs of NaN) and the right answer."""

    plan: Plan
    arrays: Arrays
    answer: Any

    def run(self, **options: Any) -> simulator.Report:
        """Run it on the arrays in place."""
        return simulator.run(self.plan, self.arrays, **options)

    def check(self) -> None:
        """Every element within one rounding of the answer, and float32's own."""
        got = self.arrays["y"].astype(np.float64)
        bound = ROUNDING[self.plan.tensor("y").dtype] * abs(self.answer) + 4e-6 * (1 + abs(self.answer))
        assert np.isfinite(got).all()
        assert (abs(got - self.answer) <= bound).all()


def arrays_of(plan: Plan, m: int) -> Arrays:
    """Normal inputs, outputs of NaN."""
    random, arrays = np.random.default_rng(m), {}
    for tensor in plan.tensors:
        shape = tuple(m if isinstance(extent, str) else extent for extent in tensor.extents)
        values = np.full(shape, np.nan) if tensor.output else random.standard_normal(shape)
        arrays[tensor.name] = values.astype(NUMPY[tensor.dtype])
    return arrays


def linear_norm(
    m: int = 70, k: int = 32, n: int = 32, dtype: str = "bfloat16", target: Target = SM90A, tiling: Tiling = TINY
) -> Kernel:
    """y = norm(x · weightᵀ)."""
    plan = plan_linear_norm(LinearNorm(k, n, dtype, tiling=tiling), target)
    arrays = arrays_of(plan, m)
    z = arrays["x"].astype(np.float64) @ arrays["weight"].astype(np.float64).T
    return Kernel(plan, arrays, z / np.sqrt((z * z).mean(1, keepdims=True) + plan.problem.eps))


def rms_norm(m: int, problem: Norm) -> Kernel:
    """y = x / rms(x) · (offset + weight)."""
    plan = plan_norm(problem, SM90A)
    arrays = arrays_of(plan, m)
    x = arrays["x"].astype(np.float64)
    scale = problem.weight_offset + arrays["weight"].astype(np.float64) if problem.weight_dtype else 1.0
    return Kernel(plan, arrays, x / np.sqrt((x * x).mean(1, keepdims=True) + problem.eps) * scale)


def with_programs(plan: Plan, **programs: Callable[..., None]) -> Plan:
    """The plan with other programs in the named roles."""
    return replace(plan, roles=Roles(tuple(replace(r, program=programs.get(r.name, r.program)) for r in plan.roles)))


# What seeds and strategies are tried on: both generations, both ways of moving rows, clusters, ragged tails, rings that turn.
STANDARD: dict[str, Callable[[], Kernel]] = {
    "linear_norm-sm_90a": lambda: linear_norm(target=SM90A),
    "linear_norm-sm_100a": lambda: linear_norm(target=SM100A),
    "rms_norm": lambda: rms_norm(200, Norm(40, "bfloat16", "float32")),
    "rms_norm-cluster": lambda: rms_norm(200, Norm(40, "bfloat16", "float32", row=16)),
}
