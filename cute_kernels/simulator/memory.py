"""The state of a CTA's memories: barriers, tiles of shared and tensor memory over one run of bytes, and global tensors."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from cute_kernels.plan import Buffer, Plan, Tensor
from cute_kernels.simulator.faults import WrongCount

POISON = 0xFF  # all ones is a NaN in every element type
NUMPY = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16), "float32": np.dtype(np.float32)}


class Barrier:
    """An mbarrier. A phase ends when all arrivals and exactly the announced bytes are in; bytes may come before they are announced.

    fills    it is a stage's full barrier, not its empty one
    awaited  who should arrive, in words
    """

    def __init__(self, cta: Any, label: str, expected: int, fills: bool, awaited: Callable[[], str]) -> None:
        self.cta, self.label, self.expected, self.fills, self.awaited = cta, label, expected, fills, awaited
        self.pending, self.bytes, self.phases = expected, 0, 0
        self.came: list[tuple[str, int]] = []  # in this phase
        self.waiters: list[Any] = []

    @property
    def name(self) -> str:
        return f"{self.label} of CTA {self.cta.number}"

    def arrive(self, who: str, count: int, announced: int = 0) -> None:
        """`count` arrivals, which announce bytes to come."""
        if count > self.pending:
            raise WrongCount(
                f"{count} arrivals on {self.name}, which expects {self.pending} more", self.cta.engine.running
            )
        self.came.append((who, count))
        self.pending -= count
        self.bytes += announced
        if not self.pending and not self.bytes:
            self.complete()

    def land(self, count: int) -> None:
        """Bytes of an asynchronous write are there."""
        self.bytes -= count
        if not self.pending and not self.bytes:
            self.complete()

    def complete(self) -> None:
        """The phase is over: whoever waits for it goes on."""
        self.phases += 1
        self.pending = self.expected
        self.came.clear()
        self.cta.events.completed(self)
        if self.waiters:
            add = self.cta.engine.add
            for worker in self.waiters:
                add(worker)
            self.waiters.clear()

    def until(self, worker: Any, parity: int) -> None:
        """Block while the current phase has this parity. A waiter that is slow to look may find it come round again, as on the chip."""
        while self.phases & 1 == parity:
            self.waiters.append(worker)
            worker.block(self, parity)

    def explain(self, parity: int) -> str:
        """For a deadlock's message."""
        came = ", ".join(f"{who} ({count})" for who, count in self.came) or "nobody"
        missing = f"{self.pending} of {self.expected} arrivals" + (f" and {self.bytes} bytes" if self.bytes else "")
        return (
            f"{self.name}, phase {self.phases} (parity {parity}): it lacks {missing}; so far came {came}; "
            f"should come: {self.awaited()}"
        )


class Tile:
    """One stage (or one letter's place in it) of a buffer. Where its bytes are, and what observers note of its use."""

    def __init__(self, cta: Any, label: str, array: Any, offset: int = -1) -> None:
        self.cta, self.label, self.array, self.offset = cta, label, array, offset
        self.bytes = array.nbytes
        self.wide: Any = None  # float32 copy, as long as the bytes stand
        self.aliases: list[Tile] = []  # tiles of other buffers on the same bytes
        # Notes of the observers: last write, readers since, fence the write needs, state of its contents.
        self.filled, self.released = False, 0
        self.writer = self.written = self.fence = self.fenced = 0
        self.by: Any = None
        self.readers: dict[int, int] = {}
        self.unfenced: dict[int, int] = {}  # of workers that read it by ordinary loads: the fence that must follow

    @property
    def name(self) -> str:
        return f"{self.label} of CTA {self.cta.number}"

    @property
    def values(self) -> Any:
        """The contents in float32."""
        wide = self.wide
        if wide is None:
            wide = self.wide = self.array.astype(np.float32)
        return wide

    def fill(self, values: Any) -> None:
        """New contents, rounded to the element type."""
        self.array[...] = values
        self.spoil()

    def spoil(self) -> None:
        """Forget what was derived from the old bytes, of aliases too."""
        self.wide = None
        for other in self.aliases:
            other.wide = None


class SharedMemory:
    """The bytes of one CTA, placed as the plan says; `tiles[buffer][member][stage]` is a tuple of tiles."""

    def __init__(self, cta: Any, plan: Plan, in_letters: frozenset[str], in_shares: frozenset[str]) -> None:
        self.bytes = np.full(plan.memory.bytes, POISON, np.uint8)
        pieces = dict.fromkeys(in_letters, "letter") | dict.fromkeys(in_shares, "share")
        self.tiles = {b.name: self.place(cta, plan, b, pieces.get(b.name, "")) for b in plan.memory.buffers}
        for a, b in plan.memory.overlaps():
            for tile in self.all(a.name):
                for other in self.all(b.name):
                    if tile.offset < other.offset + other.bytes and other.offset < tile.offset + tile.bytes:
                        tile.aliases.append(other)
                        other.aliases.append(tile)

    def all(self, name: str) -> list[Tile]:
        """Every tile of a buffer."""
        return [tile for stages in self.tiles[name] for tiles in stages for tile in tiles]

    def place(self, cta: Any, plan: Plan, buffer: Buffer, piece: str) -> list[list[tuple[Tile, ...]]]:
        """The tiles of a buffer; where a stage is written by several CTAs, one for each of their letters, or shares of its rows."""
        region, dtype = plan.memory.placement[buffer.name], NUMPY[buffer.dtype]
        members = []
        for member in range(plan.memory.copies(buffer)):
            stages = []
            for stage in range(buffer.stages):
                offset = region.offset + (member * buffer.stages + stage) * buffer.stage_bytes
                array = self.bytes[offset : offset + buffer.stage_bytes].view(dtype).reshape(buffer.shape)
                label = f"{buffer.name}[{stage}]" + (f" of {buffer.each} {member}" if buffer.each else "")
                whole = (Tile(cta, label, array, offset),)
                stages.append(self.cut(cta, label, np.split(array, plan.cluster), offset, piece) if piece else whole)
            members.append(stages)
        return members

    @staticmethod
    def cut(cta: Any, label: str, parts: list[Any], offset: int, piece: str) -> tuple[Tile, ...]:
        """A stage of pieces, one from each CTA."""
        return tuple(
            Tile(
                cta,
                f"{label}, {piece} of rank {rank},",
                part if piece == "share" else part[0],
                offset + rank * part.nbytes,
            )
            for rank, part in enumerate(parts)
        )


class TensorMemory:
    """Accumulators of one CTA in tensor memory, allocated before the roles start, as the builder does."""

    def __init__(self, cta: Any, plan: Plan) -> None:
        region = plan.memory.tensor_memory
        assert region is not None
        rows = max(product.tile[0] for product in plan.products if product.into == region.name)
        self.name, self.cta, self.freed = f"{region.name} of CTA {cta.number}", cta, 0
        self.tiles = [
            (Tile(cta, f"{region.name}[{i}]", np.full((rows, region.columns), np.nan, np.float32)),)
            for i in range(region.stages)
        ]


class GlobalTensor:
    """A tensor in global memory, cut into boxes."""

    def __init__(self, plan: Plan, spec: Tensor, array: Any) -> None:
        self.spec, self.array, self.name, self.box = spec, array, spec.name, spec.box
        self.itemsize = array.dtype.itemsize
        self.extents = array.shape
        self.parts: dict[tuple[int, int], Any] = {}
        self.limits = tuple(self.limit(plan, axis) for axis in range(len(spec.box)))  # where boxes may start: see there

    def limit(self, plan: Plan, axis: int) -> int:
        """Boxes start below this. Beyond the extent lie only the ragged tail of the last row tile, of which a member may get nothing,
        and columns of a row whose last CTAs are left without any."""
        extent, box = self.extents[axis], self.box[axis]
        unit = max(box, plan.rows) if self.spec.extents[axis] == "m" else box
        shared = plan.reach(self.spec) if axis == len(self.box) - 1 else 0
        return max(-(-extent // unit) * unit, shared)

    @property
    def height(self) -> int:
        """Rows of a table's box; a table [k] has one for all."""
        return int(self.box[-2]) if len(self.box) > 1 else 1

    def start_in_table(self, row: int, split: int = 0) -> tuple[int, ...]:
        """Where box `row` of a table starts, counted in boxes."""
        return {1: (0,), 2: (row, 0), 3: (split, row, 0)}[len(self.box)]

    def rows_of_table(self, row: int) -> Any:
        """The elements of box `row` of a table that exist, [splits, rows, k]; a view."""
        table = self.array.reshape(1, 1, -1) if self.array.ndim == 1 else self.array[(None,) * (3 - self.array.ndim)]
        return table if self.array.ndim == 1 else table[:, row * self.height : (row + 1) * self.height]

    def part(self, row: int, column: int) -> Any:
        """The elements of box (row, column) that exist; a view. Kept, for boxes are read again and again."""
        found = self.parts.get((row, column))
        if found is None:
            rows, columns = self.box
            top, left = row * rows, column * columns
            found = self.parts[row, column] = self.array[top : top + rows, left : left + columns]
        return found
