"""The coefficients of a token from its mixes: gates, and Sinkhorn's doubly stochastic matrix. Straight-line helpers on rows values.

A thread holds all n x n numbers of a token's matrix. Shared out over lanes, a column's sum would take two shuffles, some fifty cycles of a
chain that runs forty times; here the sums of four columns are independent additions. Division is by the hardware's reciprocal.
"""

from typing import Any

Matrix = tuple[tuple[Any, ...], ...]


PRE, POST, COMB = range(3)  # groups of mixes, with a scale each


def read(ctx: Any, index: Any, *groups: int) -> list[tuple[Any, ...]]:
    """Of each group dot_mix, scale and base: loaded before anything is used."""
    n = ctx.plan.problem.n
    found = []
    for group in groups:
        place = (group * n, n * n if group == COMB else n)
        (scale,) = ctx.read_table(ctx.scale, index, group, 1)
        found.append((ctx.read_table(ctx.dot_mix, index, *place), scale, ctx.read_table(ctx.base, index, *place)))
    return found


def logits(mixes: tuple[Any, ...], rstd: Any) -> tuple[Any, ...]:
    """z = dot_mix · rstd · scale + base of a group."""
    dot, scale, base = mixes
    factor = rstd * scale
    return tuple(d * factor + b for d, b in zip(dot, base, strict=True))


def gates(ctx: Any, mixes: tuple[Any, ...], rstd: Any) -> tuple[Any, ...]:
    """pre of a token."""
    return tuple(sigmoid(ctx, z) + ctx.plan.problem.pre_eps for z in logits(mixes, rstd))


def read_squares(ctx: Any, index: Any) -> Any:
    """Sums of squares that the projection has found."""
    return ctx.read_table(ctx.sqrsum, index, 0, 1)[0]


def inverse_rms(ctx: Any, squares: Any) -> Any:
    """rstd of a token's streams from the sum of their squares."""
    problem = ctx.plan.problem
    return ctx.rsqrt(squares * (1.0 / (problem.n * problem.h)) + problem.rms_eps)


def sigmoid(ctx: Any, z: Any) -> Any:
    """1 / (1 + e⁻ᶻ): 0 where e⁻ᶻ overflows."""
    return ctx.reciprocal(ctx.exp(-z) + 1.0)


def softmax(ctx: Any, matrix: Matrix) -> Matrix:
    """Of every row, its maximum subtracted."""
    found = []
    for row in matrix:
        most = row[0]
        for value in row[1:]:
            most = ctx.maximum(most, value)
        powers = tuple(ctx.exp(value - most) for value in row)
        found.append(scaled(powers, ctx.reciprocal(total(powers))))
    return tuple(found)


def divide_by_sums(ctx: Any, matrix: Matrix) -> Matrix:
    """Every row by its sum + eps."""
    eps = ctx.plan.problem.sinkhorn_eps
    return tuple(scaled(row, ctx.reciprocal(total(row) + eps)) for row in matrix)


def transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def scaled(row: tuple[Any, ...], factor: Any) -> tuple[Any, ...]:
    return tuple(value * factor for value in row)


def total(row: tuple[Any, ...]) -> Any:
    """The sum, by halves: a shorter chain than from left to right."""
    if len(row) == 1:
        return row[0]
    half = len(row) // 2
    return total(row[:half]) + total(row[half:])
