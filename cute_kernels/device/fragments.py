"""Tiles in registers. Each kind knows which rows a thread holds, and so how a row's sum is completed over its threads.

AccumulatorFragment with AccumulatorRows   a wgmma accumulator: two rows a thread, each shared by a quad of lanes
RowFragment with LaneRows                  tensor memory read by lanes: a row a thread, whole
RowFragment with SharedRows                global memory read by threads: a row for neighbouring threads, or for whole warps
"""

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32

from cute_kernels.device.traced import Traced

arch = cute.arch
QUAD, WARP = 4, 32


def pack(values: list[Any]) -> Any:
    """A rows value from one float32 for each of the thread's rows."""
    if len(values) == 1:
        return values[0]
    rows = cute.make_rmem_tensor((len(values),), Float32)
    for i, value in enumerate(values):
        rows[i] = value
    return rows.load()


def pick(rows: Any, i: int, count: int) -> Any:
    """Row i of a rows value."""
    return rows if count == 1 else rows[i]


class RowMap(Traced):
    """Which rows of the member's tile a thread holds, and which of the row's `replicas` threads it is."""

    count: int  # rows a thread
    replicas: int  # threads that hold the same row
    replica: Any

    def row(self, i: int) -> Any:
        raise NotImplementedError

    def complete(self, own: Any) -> Any:
        """The sum of `own` over the threads that share the row."""
        raise NotImplementedError

    def complete_all(self, own: list[Any]) -> tuple[Any, ...]:
        """Several sums; where threads have to meet, they meet once for all."""
        return tuple(map(self.complete, own))


class AccumulatorRows(RowMap):
    """wgmma's accumulator: warp w of the warpgroup holds rows 16 w + lane / 4 and 8 more."""

    count, replicas = 2, QUAD

    def __init__(self, thread: Any) -> None:
        self.top, self.replica = thread // WARP * 16 + thread % WARP // QUAD, thread % QUAD

    def row(self, i: int) -> Any:
        return self.top + 8 * i

    def complete(self, own: Any) -> Any:
        return arch.warp_reduction(own, lambda a, b: a + b, threads_in_group=QUAD)


class LaneRows(RowMap):
    """A row a thread: nothing to complete."""

    count, replicas, replica = 1, 1, 0

    def __init__(self, thread: Any) -> None:
        self.thread = thread

    def row(self, i: int) -> Any:
        return self.thread

    def complete(self, own: Any) -> Any:
        return own


class SharedRows(RowMap):
    """A row for `replicas` neighbouring threads; beyond a warp the warps' sums meet in shared memory."""

    count = 1

    def __init__(self, thread: Any, replicas: int, sums: Any, first_barrier: int) -> None:
        self.replicas, self.sums, self.first_barrier = replicas, sums, first_barrier
        self.top, self.replica = thread // replicas, thread % replicas

    def row(self, i: int) -> Any:
        return self.top

    def complete(self, own: Any) -> Any:
        return self.complete_all([own])[0]

    def complete_all(self, own: list[Any]) -> tuple[Any, ...]:
        group = min(self.replicas, WARP)
        within = [arch.warp_reduction(value, lambda a, b: a + b, threads_in_group=group) for value in own]
        return tuple(within) if self.replicas <= WARP else self.over_warps(within)

    def over_warps(self, own: list[Any]) -> tuple[Any, ...]:
        """Every warp's sums through shared memory, added in the warps' order by all; met twice, so that the next sums may follow."""
        warps = self.replicas // WARP
        for i, value in enumerate(own):
            self.write(value, i * warps)
        self.meet()
        totals = []
        for i in range(len(own)):
            total = self.sums[self.top, i * warps]
            for w in range(1, warps):
                total = total + self.sums[self.top, i * warps + w]
            totals.append(total)
        self.meet()
        return tuple(totals)

    def meet(self) -> None:
        """The row's threads, on a named barrier of the row's own: other rows do not wait."""
        arch.barrier(barrier_id=self.first_barrier + self.top, number_of_threads=self.replicas)

    @cute.jit
    def write(self, own: Float32, first: cutlass.Constexpr) -> None:
        if self.replica % WARP == 0:
            self.sums[self.top, first + self.replica // WARP] = own


class AccumulatorFragment(Traced):
    """A register tensor of layout ((2, 2, columns / 8), 1, 1), whose mode (0, 1) tells the thread's two rows apart."""

    def __init__(self, values: Any, rows: RowMap) -> None:
        self.values, self.rows = values, rows

    def of_row(self, i: int) -> Any:
        """A view of this thread's part of its row i."""
        return self.values[(None, i, None), 0, 0]

    def row_sum(self, function: Callable[..., Any], rows: Any, tiles: Any) -> Any:
        count = self.rows.count
        own = [function(self.of_row(i).load(), *(pick(r, i, count) for r in rows)) for i in range(count)]
        return pack([self.rows.complete(total(values)) for values in own])

    def apply(self, function: Callable[..., Any], rows: Any, columns: Any, tiles: Any) -> None:
        for i in range(self.rows.count):
            view = self.of_row(i)
            view.store(function(view.load(), *(pick(r, i, self.rows.count) for r in rows)))


class StageFragment(Traced):
    """A member's rows of a stage, a quad's lanes a quarter of each of its rows: for sums. Loaded where it is made, and fenced off from copies."""

    def __init__(self, tiles: Any, stage: Any, member: Any, rows: RowMap) -> None:
        self.rows = rows
        height, columns = 64, tiles.shape[1]
        share = cute.size(columns) // QUAD
        self.loaded = cute.make_rmem_tensor((share, rows.count), tiles.element_type)
        for i in range(rows.count):
            row = tiles[member * height + rows.row(i), None, stage]
            cute.autovec_copy(cute.local_tile(row, (share,), (rows.replica,)), self.loaded[None, i])
        arch.fence_proxy("async.shared", space="cta")

    def row_sum(self, function: Callable[..., Any], rows: Any, tiles: Any) -> Any:
        count = self.rows.count
        own = [
            function(self.loaded[None, i].load().to(Float32), *(pick(r, i, count) for r in rows)) for i in range(count)
        ]
        return pack([self.rows.complete(total(values)) for values in own])


class RowFragment(Traced):
    """One row a thread, or its share of one. What was loaded is converted where it is used, so that loads stay in flight until
    then; `apply` binds a new value, so a fragment is made and used within one straight piece of a program."""

    def __init__(self, loaded: Any, rows: RowMap, inside: Any = None) -> None:
        self.loaded, self.rows, self.applied = loaded, rows, None
        self.inside = inside  # for each chunk of a ragged row, whether it lies inside the tensor; None where all do

    def element(self, i: int, j: int) -> Any:
        """One of this thread's elements, float32."""
        return self.loaded[i, j].to(Float32) if self.applied is None else self.applied[(i, j)]

    def like(self, values: Any) -> "RowFragment":
        """Another of the same shape, of these values."""
        made = RowFragment(self.loaded, self.rows, self.inside)
        made.applied = values
        return made

    @property
    def value(self) -> Any:
        """This thread's elements, float32."""
        return self.loaded.load().to(Float32) if self.applied is None else self.applied

    def row_sum(self, function: Callable[..., Any], rows: Any, tiles: Any) -> Any:
        return self.rows.complete(self.own_sum(function(self.value, *rows, *(t.value for t in tiles))))

    def row_sums(self, function: Callable[..., Any], rows: Any, tiles: Any) -> tuple[Any, ...]:
        several = function(self.value, *rows, *(t.value for t in tiles))
        return self.rows.complete_all([self.own_sum(values) for values in several])

    def own_sum(self, values: Any) -> Any:
        """Of the thread's elements that lie inside the tensor."""
        return total(values if self.inside is None else self.without_outside(values))

    def without_outside(self, values: Any) -> Any:
        """Zeros for chunks beyond the tensor, whatever the function made of them."""
        kept = cute.make_rmem_tensor(self.loaded.shape, Float32)
        kept.store(values)
        for j, inside in enumerate(self.inside):
            for i in range(self.loaded.shape[0]):
                kept[i, j] = Float32(select(inside, kept[i, j], Float32(0.0)))
        return kept.load()

    def apply(self, function: Callable[..., Any], rows: Any, columns: Any, tiles: Any) -> None:
        self.applied = function(self.value, *rows, *(c.value for c in columns), *(t.value for t in tiles))


class ColumnSums(Traced):
    """Sums over rows, one register for each of the thread's elements of a row."""

    def __init__(self, shape: Any) -> None:
        self.values = cute.make_rmem_tensor(shape, Float32)
        self.values.fill(0.0)

    def add(self, fragment: RowFragment, function: Callable[..., Any], tiles: Any) -> None:
        self.values.store(self.values.load() + function(fragment.value, *(t.value for t in tiles)))


def combine(function: Callable[..., Any], tiles: Any, rows: Any) -> tuple[RowFragment, ...]:
    """Element by element, so that few registers hold float32 at once: what was loaded stays packed until its turn comes."""
    shape = tiles[0].loaded.shape
    made: list[Any] = []
    for j in range(shape[1]):
        for i in range(shape[0]):
            results = function(*(tile.element(i, j) for tile in tiles), *rows)
            made = made or [cute.make_rmem_tensor(shape, Float32) for _ in results]
            for out, result in zip(made, results, strict=True):
                out[i, j] = result
    return tuple(tiles[0].like(out.load()) for out in made)


def total(values: Any) -> Any:
    """The sum of a thread's own elements."""
    return values.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)


class Part(Traced):
    """The columns of a staged part of an accumulator, not yet taken out."""

    def __init__(self, fragment: AccumulatorFragment, part: int) -> None:
        self.fragment, self.part = fragment, part


def zeros(rows: RowMap) -> Any:
    """A rows value of zeros."""
    return pack([Float32(0.0)] * rows.count)


def select(condition: Any, a: Any, b: Any) -> Any:
    """a where `condition` holds, else b, without a branch."""
    return cutlass.select_(condition, a, b)
