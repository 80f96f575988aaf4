"""The decorator of role programs. The context a program is called with decides what becomes of it."""

import functools
from collections.abc import Callable
from typing import Any

# Every role program of the package, by module and name, as it is defined: tests and the mutation table walk it.
PROGRAMS: dict[str, Callable[..., Any]] = {}


def jit(program: Callable[..., Any]) -> Callable[..., Any]:
    """Make `program(ctx, …)` run on the back end of `ctx`: `ctx.bind(program)` is the CuTe DSL's traced form of it on a
    GPU, and the very function in the simulator. The DSL knows a decorator by its last name, so it must be used as `@tile.jit`.
    """
    PROGRAMS[f"{program.__module__}.{program.__qualname__}"] = program

    @functools.wraps(program)
    def run(ctx: Any, *rest: Any) -> Any:
        return ctx.bind(program)(ctx, *rest)

    return run
