"""The simulator's verbs have the signatures of tile/vocabulary.py."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cute_kernels.simulator.context import Context
from cute_kernels.simulator.products import TensorMemory, TensorProduct, WarpgroupProduct
from cute_kernels.simulator.rings import Mail, Ring
from cute_kernels.simulator.staging import Staging
from cute_kernels.tile import vocabulary

PAIRS = [
    (vocabulary.Ring, Ring),
    (vocabulary.Mail, Mail),
    (vocabulary.TensorMemory, TensorMemory),
    (vocabulary.Staging, Staging),
    (vocabulary.Context, Context),
    (vocabulary.Product, WarpgroupProduct),
    (vocabulary.Product, TensorProduct),
]
HOPPER_ONLY = {"accumulator", "wait"}  # of a product: on Blackwell accumulators are a ring's


def verbs(protocol: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The methods a vocabulary class names, inherited ones too."""
    for base in protocol.__mro__:
        for name, member in vars(base).items():
            if base.__module__ == vocabulary.__name__ and inspect.isfunction(member) and not name.startswith("_"):
                yield name, member


def shape(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Parameter names and defaults."""
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("protocol", "implementation", "verb"),
    [
        pytest.param(protocol, implementation, name, id=f"{implementation.__name__}.{name}")
        for protocol, implementation in PAIRS
        for name, _ in verbs(protocol)
        if not (implementation is TensorProduct and name in HOPPER_ONLY)
    ],
)
def test_signature(protocol: type, implementation: type, verb: str) -> None:
    assert shape(getattr(implementation, verb)) == shape(dict(verbs(protocol))[verb])
