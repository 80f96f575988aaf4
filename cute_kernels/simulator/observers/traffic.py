"""What moved and what was multiplied: counted from the copies and products that were made."""

from typing import Any


class Traffic:
    """Bytes of global memory that exist (not what lies beyond a tensor), bytes between CTAs, FLOPs."""

    def __init__(self) -> None:
        self.read = self.written = self.dsmem = self.flops = 0

    def multiplies(self, worker: Any, flops: int) -> None:
        self.flops += flops

    def will_write(self, worker: Any, barrier: Any, tile: Any) -> None:
        if tile.cta is not worker.cta:
            self.dsmem += tile.bytes

    def box(self, worker: Any, tensor: Any, start: tuple[int, ...], size: int, writes: bool) -> None:
        if writes:
            self.written += size * tensor.itemsize
        else:
            self.read += size * tensor.itemsize
