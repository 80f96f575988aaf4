"""What the machine tells its observers. Checkers listen here; the machine itself decides nothing but what the hardware would.

An observer is any object with methods of these names; those it lacks it does not hear.
"""

from collections.abc import Callable, Iterable
from typing import Any

NAMES = (
    "start",  # (cluster) it is about to run
    "waits",  # (worker, barrier, parity) a wait begins
    "waited",  # (worker, barrier) a wait has passed
    "arrives",  # (worker, barrier) a worker is about to arrive
    "landed",  # (barrier, tile) bytes of an asynchronous write have arrived
    "commits",  # (worker, queue) an arrival is put behind the operations of a queue
    "committed",  # (queue, barrier) it is about to arrive
    "completed",  # (barrier) a phase is over
    "released",  # (worker, tiles) their stage is about to be handed back
    "reads",  # (worker, tile) ordinary loads
    "writes",  # (worker, tile) ordinary stores
    "will_read",  # (worker, queue, tile) by the operation that is about to be issued
    "will_write",  # (worker, barrier, tile) by an operation whose bytes arrive on the barrier
    "will_accumulate",  # (worker, queue, tile, fresh) by the product that is about to be issued
    "settled",  # (worker, queue) the worker knows that queue.settled operations are done
    "fenced",  # (worker) its ordinary writes are visible to the async proxy
    "touches",  # (worker, fragment) registers are used
    "accumulates",  # (worker, fragment, fresh) by the product that is about to be issued
    "multiplies",  # (worker, FLOPs) a product is about to be issued
    "holds",  # (worker) a fragment has been made
    "frees",  # (worker, tensor memory)
    "box",  # (worker, tensor, start, size, writes) a box of global memory is about to be moved
    "ended",  # (worker) its program has returned
    "left",  # (cta) all its programs have
    "span",  # (span) of a strategy that keeps time
    "finish",  # (tensors) everything is done
)


class Events:
    """A callable for each event, which tells all observers that listen."""

    def __init__(self, observers: Iterable[Any]) -> None:
        for name in NAMES:
            heard = [getattr(observer, name) for observer in observers if hasattr(observer, name)]
            setattr(self, name, together(heard))

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AttributeError(f"no such event: {name}")


def together(listeners: list[Callable[..., None]]) -> Callable[..., None]:
    """One callable for all of them, as cheap as their number allows."""
    if not listeners:
        return lambda *_: None
    if len(listeners) == 1:
        return listeners[0]
    if len(listeners) == 2:
        first, second = listeners

        def tell_both(*what: Any) -> None:
            first(*what)
            second(*what)

        return tell_both

    def tell(*what: Any) -> None:
        for listener in listeners:
            listener(*what)

    return tell
