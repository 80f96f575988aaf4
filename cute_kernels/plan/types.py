"""The element types plans speak of, by the names torch and NumPy share, the error a bad plan raises, and the search by name."""

from collections.abc import Iterable
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Any)

DTYPES = {"bfloat16": 2, "float16": 2, "float32": 4}


class PlanError(ValueError):
    """A plan that cannot stand: over capacity, inconsistent roles, a forbidden overlay. The message shows the table."""


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    if dtype not in DTYPES:
        raise PlanError(f"unknown dtype {dtype!r}; plans take {', '.join(DTYPES)}")
    return DTYPES[dtype]


def find(kind: str, name: str, things: Iterable[Named]) -> Named:
    """The one of that name, or a PlanError that says which there are."""
    listed = list(things)
    for thing in listed:
        if thing.name == name:
            return thing
    raise PlanError(f"no {kind} {name!r}; there are {', '.join(thing.name for thing in listed) or 'none'}")
