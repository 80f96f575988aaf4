"""Every verb's program with the shapes and dtypes it is tried on. Inputs are small integers, so answers are exact."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from cute_kernels.linear_norm.plan import LinearNorm
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, Plan, Roles
from tests.verbs import programs

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A program in a plan, rows of input, and the answer as a function of the float32 inputs."""

    name: str
    plan: Plan
    rows: int
    answer: Callable[[Plan, torch.Tensor, torch.Tensor | None], torch.Tensor]
    approximate: float = 0.0  # relative error allowed before rounding

    def inputs(self) -> Tensors:
        """Small integers, and an output of NaN."""
        generator = torch.Generator().manual_seed(self.rows)
        made: Tensors = {}
        for tensor in self.plan.tensors:
            shape = [extent if isinstance(extent, int) else self.rows for extent in tensor.extents]
            dtype = getattr(torch, tensor.dtype)
            values = torch.randint(-2, 3, shape, generator=generator).to(dtype)
            made[tensor.name] = torch.full(shape, torch.nan, dtype=dtype) if tensor.output else values
        return made

    def expected(self, tensors: Tensors) -> torch.Tensor:
        """The answer, rounded to the output's dtype."""
        weight = tensors.get("weight")
        answer = self.answer(self.plan, tensors["x"].float(), None if weight is None else weight.float())
        return answer.to(tensors["y"].dtype)


def with_program(plan: Plan, role: str, program: Callable[..., Any]) -> Plan:
    """The plan with another program in one role, its CTAs walking over tiles so that rings turn."""
    table = tuple(replace(r, program=program) if r.name == role else r for r in plan.roles.table)
    return replace(plan, roles=Roles(table), persistent=True)


def slices(plan: Plan, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """x's columns by the CTA of the cluster that holds them."""
    return x.split(plan.tensor("y").box[1], dim=1)


def copied(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    return x


def scaled(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    return x * weight + 1


def summed(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    return torch.cat([s + s.sum(1, keepdim=True) for s in slices(plan, x)], dim=1)


def rooted(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    parts = slices(plan, x)
    return torch.cat([s.double().square().sum(1, keepdim=True).rsqrt().expand_as(s) for s in parts], dim=1)


def exchanged(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    return x + sum((rank + 1) * s.sum(1, keepdim=True) for rank, s in enumerate(slices(plan, x)))


def multiplied(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    return x @ weight.T


def multiplied_and_summed(plan: Plan, x: torch.Tensor, weight: Any) -> torch.Tensor:
    columns = plan.products[0].tile[1]
    return torch.cat([z + z.sum(1, keepdim=True) for z in (x @ weight.T).split(columns, dim=1)], dim=1)


def norm_case(program: Any, answer: Any, rows: int, problem: Norm, approximate: float = 0.0) -> Case:
    plan = with_program(plan_norm(problem, SM90A), "normalise", program)
    name = f"{program.__name__}-{rows}x{problem.n}-{problem.dtype}-vector{problem.vector}-cluster{plan.cluster}"
    return Case(name, plan, rows, answer, approximate)


def product_case(program: Any, answer: Any, rows: int, problem: LinearNorm) -> Case:
    plan = with_program(plan_linear_norm(problem, SM90A), "multiply", program)
    return Case(f"{program.__name__}-{rows}x{problem.n}x{problem.k}-{problem.dtype}", plan, rows, answer)


def cases() -> Iterator[Case]:
    """All of them."""
    for dtype, vector in (("bfloat16", 8), ("bfloat16", 1), ("float16", 2), ("float32", 4), ("float32", 1)):
        for n in (8, 200, 1000, 2048):
            yield norm_case(programs.copy, copied, 37, Norm(n, dtype, vector=vector))
            yield norm_case(programs.sum_rows, summed, 21, Norm(n, dtype, vector=vector))
        scale = Norm(1000, dtype, weight_dtype="float32", vector=min(vector, 4))
        yield norm_case(programs.scale_columns, scaled, 19, scale)
        yield norm_case(programs.inverse_roots, rooted, 9, Norm(512, dtype, vector=vector), approximate=2**-21)
    for n in (7, 33, 1001, 9000):
        yield norm_case(programs.copy, copied, 130, Norm(n, "float16", vector=1))
    for cluster in (2, 3, 5, 8, 16):
        problem = Norm(128 * cluster, "float32", vector=4, row=128)
        yield norm_case(programs.exchange, exchanged, 200, problem)
    for dtype in ("bfloat16", "float16"):
        for n, k in ((64, 64), (256, 8), (512, 200), (768, 64)):
            yield product_case(programs.multiply, multiplied, 300, LinearNorm(k, n, dtype))
        yield product_case(programs.sum_accumulator_rows, multiplied_and_summed, 300, LinearNorm(64, 512, dtype))
