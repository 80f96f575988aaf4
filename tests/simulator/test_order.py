"""Proxies: an asynchronous write must come after the fence of whoever stored to or loaded from its bytes, under whatever name."""

from types import SimpleNamespace

import numpy as np
import pytest

from cute_kernels.simulator.faults import MissingFence
from cute_kernels.simulator.memory import Tile
from cute_kernels.simulator.observers.order import Order

FENCES = 2  # the component of the fences of the worker that accesses
CTA = SimpleNamespace(number=0)


def worker(fences: int) -> SimpleNamespace:
    """One that knows of so many fences, and of all else."""
    clock = np.full(3, 9)
    clock[FENCES] = fences
    engine = SimpleNamespace(running=None)
    return SimpleNamespace(clock=clock, engine=engine, name="load", frame=None)


def pair(accessed: str, kind: str) -> Tile:
    """A tile and one on the same bytes; the one `accessed` was stored to or loaded from, after fence 4."""
    tile, other = (Tile(CTA, name, np.zeros(4, np.float32)) for name in ("x", "parts"))
    tile.aliases, other.aliases = [other], [tile]
    one = tile if accessed == "x" else other
    if kind == "stores to":
        one.fence, one.fenced = FENCES, 5
    else:
        one.unfenced[FENCES] = 5
    return tile


@pytest.mark.parametrize("kind", ["stores to", "loads of"])
@pytest.mark.parametrize("accessed", ["x", "parts"])
def test_an_asynchronous_write_waits_for_the_fence(accessed: str, kind: str) -> None:
    with pytest.raises(
        MissingFence, match=f"x of CTA 0 is overwritten asynchronously after ordinary {kind} {accessed} "
    ):
        Order().may_cross(worker(4), pair(accessed, kind))
    Order().may_cross(worker(5), pair(accessed, kind))
