"""What forward and backward do between checked tensors and a launch: the plan, and tensors laid out as it takes them."""

import functools

import torch

from cute_kernels.norms.plan import ROW, Norm, NormBackward, plan
from cute_kernels.plan import Plan, PlanError, Target
from cute_kernels.runtime import inputs


@functools.lru_cache(maxsize=1024)
def planned(operator: str, problem: Norm | NormBackward, target: Target) -> Plan:
    """The plan, or one line on what there is a plan for."""
    try:
        return plan(problem, target)
    except PlanError as error:
        most = target.cluster_most * ROW
        raise ValueError(f"{operator}: x has rows of {problem.n}; it takes up to {most} on {target.arch}") from error


def lay_out(tensors: dict[str, torch.Tensor | None]) -> tuple[dict[str, torch.Tensor], int]:
    """Those there are as rows, and how many elements a thread can move at once in all of them."""
    rows = {name: inputs.rows(value) for name, value in tensors.items() if value is not None}
    return rows, min(map(inputs.vector, rows.values()))


def parameter(value: torch.Tensor, vector: int) -> torch.Tensor:
    """A vector along the columns, aligned for a thread that moves `vector` elements of it."""
    return inputs.aligned(value.contiguous(), vector * value.element_size())
