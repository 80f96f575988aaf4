"""What the programs of hyper-connections share: the streams of a token, each a tensor of its own, and sums weighted by coefficients."""

from typing import Any


def names(of: str, n: int) -> tuple[str, ...]:
    """The plan's names of `n` streams."""
    return tuple(f"{of}{j}" for j in range(n))


def read(ctx: Any, of: str, index: Any) -> tuple[Any, ...]:
    """This CTA's columns of every stream of a tile of tokens: loads of all of them are in flight at once."""
    return tuple(ctx.read(getattr(ctx, name), index, ctx.rank) for name in names(of, ctx.plan.problem.n))


def write(ctx: Any, of: str, index: Any, values: tuple[Any, ...]) -> None:
    """A fragment to each stream."""
    for name, value in zip(names(of, ctx.plan.problem.n), values, strict=True):
        ctx.write(getattr(ctx, name), index, ctx.rank, value)


def weighted_sum(*values: Any) -> Any:
    """Σ value · weight from left to right: as many values as weights behind them."""
    half = len(values) // 2
    total = values[0] * values[half]
    for value, weight in zip(values[1:half], values[half + 1 :], strict=True):
        total = total + value * weight
    return total


def squares(*values: Any) -> Any:
    """Σ value² of an element of every stream."""
    return weighted_sum(*values, *values)


def one_sum(*values: Any) -> tuple[Any]:
    """The weighted sum, alone."""
    return (weighted_sum(*values),)


def count(values: tuple[Any, ...], beside: int) -> int:
    """n, of so many values: n² coefficients, and `beside` times n others."""
    n = 1
    while n * (n + beside) < len(values):
        n += 1
    return n
