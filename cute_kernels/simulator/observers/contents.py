"""What a tile or a fragment holds: nothing yet, something to read, something already given back, or another buffer's bytes."""

from typing import Any

from cute_kernels.simulator import faults
from cute_kernels.simulator.memory import Tile


class Contents:
    """Reads of nothing, of a stage the reader has released, and of bytes that an overlay has taken; a stage released twice."""

    def start(self, cluster: Any) -> None:
        for cta in cluster.ctas:
            for i, worker in enumerate(cta.workers):
                worker.bit = 1 << i

    def reads(self, worker: Any, tile: Tile) -> None:
        if not tile.filled or tile.released & worker.bit:
            raise self.fault(worker, tile)

    def will_read(self, worker: Any, queue: Any, tile: Tile) -> None:
        if not tile.filled or tile.released & worker.bit:
            raise self.fault(worker, tile)

    def fault(self, worker: Any, tile: Tile) -> faults.Hazard:
        """Which of the three it is."""
        if tile.filled:
            return faults.StaleSlot(f"{tile.name} has not been filled again since", worker)
        taken = [other.name for other in tile.aliases if other.filled]
        if taken:
            return faults.OverlayClash(f"{tile.name} holds the bytes of {', '.join(taken)}", worker)
        return faults.UninitialisedRead(f"{tile.name}, which nobody has written", worker)

    def writes(self, worker: Any, tile: Tile) -> None:
        tile.filled, tile.released = True, 0
        for other in tile.aliases:
            other.filled = False

    def will_write(self, worker: Any, barrier: Any, tile: Tile) -> None:
        self.writes(worker, tile)

    def will_accumulate(self, worker: Any, queue: Any, tile: Tile, fresh: bool) -> None:
        if not fresh and not tile.filled:
            raise self.fault(worker, tile)
        tile.filled, tile.released = True, 0

    def released(self, worker: Any, tiles: tuple[Tile, ...]) -> None:
        for tile in tiles:
            if tile.released & worker.bit:
                raise faults.DoubleRelease(f"{tile.name} has not been filled again since", worker)
            tile.released |= worker.bit

    # Registers

    def touches(self, worker: Any, fragment: Any) -> None:
        queue = fragment.queue
        if queue is not None and fragment.product > queue.settled:
            raise faults.ProductInFlight(f"{fragment.product - queue.settled} of {queue.label} not waited for", worker)
        if not fragment.filled:
            raise faults.UninitialisedRead("an accumulator that no product has written", worker)

    def accumulates(self, worker: Any, fragment: Any, fresh: bool) -> None:
        if not fresh and not fragment.filled:
            raise faults.UninitialisedRead("the first product adds to an accumulator that holds nothing", worker)
