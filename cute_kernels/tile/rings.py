"""What both back ends' rings share: the order in which a stage's two barriers are waited for and armed."""

from typing import Any


class RingProtocol:
    """Stages with a full and an empty barrier each. A slot is (index, phase), frozen; only a loop body re-binds it.

    A fresh barrier counts as having passed the phase before its first, so the first lap's acquires pass at once.
    A back end adds start, advance, skip, until, announce, full, empty and release.
    """

    stages: int

    def acquire(self, slot: Any) -> None:
        """Wait until the stage's last readers have released it, then announce the bytes that will fill it."""
        self.until(self.empty(slot), slot.phase ^ 1)
        self.announce(slot)

    def wait(self, slot: Any) -> None:
        """Wait until the stage is full. What filled it is visible from here on."""
        self.until(self.full(slot), slot.phase)

    def drain(self, slot: Any) -> None:
        """Wait until every stage this role filled has been released: nobody will touch this CTA's stages any more."""
        for _ in range(self.stages):
            self.until(self.empty(slot), slot.phase ^ 1)
            slot = self.advance(slot)

    def until(self, barrier: Any, phase: Any) -> None:
        raise NotImplementedError

    def announce(self, slot: Any) -> None:
        raise NotImplementedError

    def full(self, slot: Any) -> Any:
        raise NotImplementedError

    def empty(self, slot: Any) -> Any:
        raise NotImplementedError

    def advance(self, slot: Any) -> Any:
        raise NotImplementedError
