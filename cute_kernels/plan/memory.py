"""Where everything lives in shared and tensor memory: buffers with lifetimes, one placement, deliberate overlays."""

from dataclasses import dataclass

from cute_kernels.plan.target import Target
from cute_kernels.plan.types import PlanError, find, itemsize

BARRIER_BYTES = 8
SWIZZLE_ALIGNMENT = 1024  # what a 128-byte swizzle, and so TMA and the tensor cores, ask for
ALWAYS = ("always",)


@dataclass(frozen=True)
class Buffer:
    """Tiles of shared memory: `stages` of `shape` for the CTA, or for each member of the role `each`.

    swizzled  laid out in 128-byte swizzle atoms, as TMA and the tensor cores take it; else row-major
    live      the phases of a tile's life in which its bytes matter; "always" for all of them
    over      the buffer whose bytes it deliberately shares: allowed only where their phases are disjoint
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    stages: int = 1
    each: str = ""
    swizzled: bool = False
    live: tuple[str, ...] = ALWAYS
    over: str = ""

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage."""
        size = itemsize(self.dtype)
        for extent in self.shape:
            size *= extent
        return size

    @property
    def alignment(self) -> int:
        """Bytes that every stage's address is a multiple of."""
        return SWIZZLE_ALIGNMENT if self.swizzled else 16


@dataclass(frozen=True)
class Region:
    """A placed piece of shared memory: `count` copies (members x stages) of `stage_bytes` from `offset` on."""

    name: str
    offset: int
    count: int
    stage_bytes: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.offset + self.count * self.stage_bytes


@dataclass(frozen=True)
class TensorMemory:
    """Accumulators in tensor memory: `stages` of `columns` 32-bit columns over 128 lanes."""

    name: str
    columns: int
    stages: int

    @property
    def allocated(self) -> int:
        """Columns asked for: the hardware gives powers of two from 32 on."""
        columns = 32
        while columns < self.columns * self.stages:
            columns *= 2
        return columns


@dataclass(frozen=True)
class Memory:
    """The buffers of a CTA and their one placement: barriers first, then buffers in order, overlays where they say."""

    buffers: tuple[Buffer, ...]
    barriers: int = 0
    tensor_memory: TensorMemory | None = None
    members: tuple[tuple[str, int], ...] = ()  # role -> members, for buffers that each member has

    def __getitem__(self, name: str) -> Buffer:
        return find("buffer", name, self.buffers)

    @property
    def accumulators(self) -> TensorMemory:
        """The tensor memory of a plan that has some."""
        if self.tensor_memory is None:
            raise PlanError("the plan has no tensor memory")
        return self.tensor_memory

    def copies(self, buffer: Buffer) -> int:
        """Members that have the buffer each, or 1."""
        members = {"": 1, **dict(self.members)}
        if buffer.each not in members:
            raise PlanError(f"{buffer.name}: how many members {buffer.each!r} has is not said")
        return members[buffer.each]

    @property
    def header(self) -> int:
        """Bytes before the first buffer: the barriers, and the word in which tensor memory's address is handed round."""
        return BARRIER_BYTES * (self.barriers + (self.tensor_memory is not None))

    @property
    def placement(self) -> dict[str, Region]:
        """Every buffer's region, behind the header."""
        end: int = self.header
        regions: dict[str, Region] = {}
        for buffer in self.buffers:
            start = find("buffer before it", buffer.over, regions.values()).offset if buffer.over else end
            offset = -(-start // buffer.alignment) * buffer.alignment
            regions[buffer.name] = Region(buffer.name, offset, self.copies(buffer) * buffer.stages, buffer.stage_bytes)
            end = max(end, regions[buffer.name].end)
        return regions

    @property
    def bytes(self) -> int:
        """Shared memory of a CTA."""
        return max((r.end for r in self.placement.values()), default=self.header)

    def overlaps(self) -> tuple[tuple[Buffer, Buffer], ...]:
        """Pairs of buffers that share bytes."""
        place, pairs = self.placement, []
        for i, a in enumerate(self.buffers):
            for b in self.buffers[i + 1 :]:
                if place[a.name].offset < place[b.name].end and place[b.name].offset < place[a.name].end:
                    pairs.append((a, b))
        return tuple(pairs)

    def check(self, target: Target) -> None:
        """Raise PlanError, with the table, where it does not fit or an overlay is not allowed."""
        for buffer in self.buffers:
            if buffer.stages < 1 or min(buffer.shape, default=0) < 1:
                raise PlanError(f"{buffer.name} has {buffer.stages} stages of {buffer.shape}")
        for a, b in self.overlaps():
            if ALWAYS in (a.live, b.live) or set(a.live) & set(b.live):
                raise PlanError(f"{a.name} and {b.name} share bytes and are alive at once\n{self}")
        if self.bytes > target.smem_bytes:
            raise PlanError(f"{self.bytes} bytes of shared memory, {target.arch} has {target.smem_bytes}\n{self}")
        columns = self.tensor_memory.allocated if self.tensor_memory else 0
        if columns > target.tmem_columns:
            raise PlanError(f"{columns} columns of tensor memory, {target.arch} has {target.tmem_columns}\n{self}")

    def __str__(self) -> str:
        line = "{:14} {:>7} - {:>7}  {:3} x {:6} bytes  {:9} {}{}"
        rows = [f"{'header':14} {0:>7} - {self.header:>7}  {self.barriers} barriers"]
        for buffer in self.buffers:
            r = self.placement[buffer.name]
            live = "" if buffer.live == ALWAYS else " live in " + ", ".join(buffer.live)
            over = f" over {buffer.over}" if buffer.over else ""
            rows.append(
                line.format(r.name, r.offset, r.end, r.count, r.stage_bytes, buffer.dtype, buffer.shape, over + live)
            )
        if t := self.tensor_memory:
            rows.append(f"{t.name:14} tensor memory: {t.stages} x {t.columns} columns, {t.allocated} allocated")
        return "\n".join([*rows, f"{'total':14} {self.bytes:>17} bytes"])
