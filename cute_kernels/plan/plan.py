"""The plan of one kernel: everything the back ends need to build, run and draw it, and why each choice was made."""

import functools
from dataclasses import dataclass, field
from typing import Any

from cute_kernels.plan import checks
from cute_kernels.plan.memory import Memory
from cute_kernels.plan.ring import Drain, Fill, Ring
from cute_kernels.plan.roles import Roles
from cute_kernels.plan.target import Target
from cute_kernels.plan.types import PlanError, find


@dataclass(frozen=True)
class Tensor:
    """A tensor in global memory. Extents are compile-time numbers or the name of a run-time one ("m").

    box     what one TMA copy moves, where TMA moves it, between here and a stage of `buffer`
    vector  elements a thread moves at once, where threads move it
    ahead   of a vector along the columns: how many such moves are under way before one is used; None: all, to stay in registers
    shared  the CTAs of a cluster need the same boxes: each loads its share of a box's rows, and TMA hands it to all of them (multicast)
    table   few columns a row, [k], [m, k] or [splits, m, k]: each thread moves what it needs of its own row
    """

    name: str
    dtype: str
    extents: tuple[int | str, ...]
    box: tuple[int, ...] = ()
    buffer: str = ""
    vector: int = 1
    output: bool = False
    ahead: int | None = None
    shared: bool = False
    table: bool = False


@dataclass(frozen=True)
class Product:
    """A matrix product a · bᵀ on the tensor cores: `role` multiplies `tile` = (rows, columns, depth) at a time.

    a, b  buffers, K-major (a row of a buffer runs along K). Members of `role` share out a's rows, or take a's tiles in turn.
    into  "" for accumulators in the role's registers, else the tensor-memory region
    """

    name: str
    role: str
    a: str
    b: str
    tile: tuple[int, int, int]
    into: str = ""


@dataclass(frozen=True)
class Staging:
    """The `parts` of a tile on their way from the registers of `role` through `buffer` to global memory by TMA; no mbarrier needed.

    Part p goes through stage p modulo the buffer's stages, and `acquire` counts stores in flight: so stages divide parts.
    """

    name: str
    role: str
    buffer: str
    parts: int


@dataclass(frozen=True)
class Plan:
    """One kernel, as data. `rows` are the rows of the run-time extent "m" that a cluster handles at a time.

    slices  CTAs that share the columns of the rows and exchange nothing, each alone in its cluster
    """

    operator: str
    target: Target
    problem: Any  # the operator's frozen dataclass of compile-time facts; programs read their static choices here
    rows: int
    cluster: int
    roles: Roles
    memory: Memory
    tensors: tuple[Tensor, ...]
    rings: tuple[Ring, ...] = ()
    products: tuple[Product, ...] = ()
    stagings: tuple[Staging, ...] = ()
    ctas_an_sm: int = 1
    persistent: bool = True  # one CTA a slot of the machine, walking; else a cluster a tile
    slices: int = 1
    why: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        checks.check(self)
        needed = barriers(self.rings, self.roles)
        if self.memory.barriers != needed:
            raise PlanError(f"{self.memory.barriers} barriers placed, {needed} needed")

    def __hash__(self) -> int:
        """Of what tells plans apart; kept, since launches look kernels up by their plans."""
        return self.fingerprint

    @functools.cached_property
    def fingerprint(self) -> int:
        return hash((self.operator, self.target.arch, self.problem, self.rows, self.cluster, self.slices, self.roles))

    def ring(self, name: str) -> Ring:
        return find("ring", name, self.rings)

    def tensor(self, name: str) -> Tensor:
        return find("tensor", name, self.tensors)

    def share(self, product: Product, member: Any) -> Any:
        """Which `tile[0]` rows of a stage of a `member` multiplies: its own, or all there are where tiles are taken in turn."""
        return member if self.memory[product.a].shape[0] > product.tile[0] else 0

    def slice(self, tensor: Tensor) -> int:
        """Columns of a row of `tensor` that one of the CTAs that share it holds: its product's where they are the tensor's, else a box."""
        of_product = self.products and tensor.extents[-1] == self.width
        return self.products[0].tile[1] if of_product else tensor.box[-1]

    def reach(self, tensor: Tensor) -> int:
        """Columns that all CTAs that share a row of `tensor` hold together; where it is less wide, the last of them are left without any."""
        return self.sharing * self.slice(tensor)

    @property
    def width(self) -> int:
        """Columns of the product's result, over all CTAs of a cluster: rows of the tensor that b is loaded from."""
        extent = next(t.extents[0] for t in self.tensors if t.buffer == self.products[0].b)
        if not isinstance(extent, int):
            raise PlanError(f"the product has {extent!r} columns; they are fixed when a plan is made")
        return extent

    def stage_bytes(self, ring: Ring) -> int:
        """Bytes that complete a stage: its copies', or the letters' of every CTA in the cluster."""
        return 0 if ring.fill is Fill.MMA else sum(self.memory[name].stage_bytes for name in ring.carries)

    def full_arrivals(self, ring: Ring) -> int:
        """Arrivals a full barrier counts: the one announcement, the one commit, or those of a member's warps."""
        return self.roles[ring.filled_by].warps if ring.fill is Fill.WARPS else 1

    def empty_arrivals(self, ring: Ring) -> int:
        """Arrivals an empty barrier counts: derived from who drains."""
        role = self.roles[ring.drained_by]
        members = 1 if ring.each or ring.in_turn else role.members
        own = role.warps * members
        counts = {Drain.WARPS: own, Drain.PEERS: own * self.cluster, Drain.MMA: 1}
        return counts[ring.drain]

    def blocks(self, m: int, clusters_at_once: int | None = None) -> int:
        """CTAs of the grid for `m` rows; `clusters_at_once` is what the device can hold (the target's SMs if unknown)."""
        tiles = -(-m // self.rows)
        at_once = clusters_at_once or self.target.sms * self.ctas_an_sm // self.cluster
        return self.sharing * (min(tiles, at_once) if self.persistent else tiles)

    @property
    def sharing(self) -> int:
        """CTAs that share the columns of a row."""
        return self.cluster * self.slices

    def __str__(self) -> str:
        head = f"{self.operator} on {self.target.arch}: {self.problem}"
        sliced = f", {self.slices} slices" if self.slices > 1 else ""
        walk = "persistent" if self.persistent else "one tile each"
        shape = f"{self.rows} rows a tile, cluster of {self.cluster}{sliced}, {walk}"
        rings = [
            f"ring {r.name:12} {r.stages} stages, {r.filled_by} ({r.fill.value}) -> {r.drained_by} ({r.drain.value}), "
            f"{self.stage_bytes(r)} bytes, empty after {self.empty_arrivals(r)} arrivals"
            for r in self.rings
        ]
        return "\n".join([head, shape, str(self.roles), *rings, str(self.memory), *(f"why: {w}" for w in self.why)])


def barriers(rings: tuple[Ring, ...], roles: Roles) -> int:
    """mbarriers of a CTA: a full and an empty one a stage, for every member where each has a ring."""
    return sum(2 * ring.stages * (roles[ring.each].members if ring.each else 1) for ring in rings)
