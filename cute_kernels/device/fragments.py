"""Tiles in registers. Each kind knows which rows a thread holds, and so how a row's sum is completed over its threads.

AccumulatorFragment with AccumulatorRows   a wgmma accumulator: two rows a thread, each shared by a quad of lanes; a Part is some columns of it,
                                           and QuadFragment what is read from global memory in the same layout
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


class QuadRows(Traced):
    """What fragments of two rows a thread have in common: the thread has pairs of columns, 8 apart, of each of its rows.

    inside  for each pair, whether it lies inside the tensor; None where all do
    """

    rows: RowMap
    inside: Any

    def of_row(self, i: int) -> Any:
        """A (2, pairs) tensor: this thread's part of its row i."""
        raise NotImplementedError

    def value(self, i: int) -> Any:
        """The same as a float32 vector."""
        return self.of_row(i).load().to(Float32)

    def row_sum(self, function: Callable[..., Any], rows: Any, tiles: Any) -> Any:
        return self.row_sums(lambda *values: (function(*values),), rows, tiles)[0]

    def row_sums(self, function: Callable[..., Any], rows: Any, tiles: Any) -> tuple[Any, ...]:
        count = self.rows.count
        several = [
            function(self.value(i), *(pick(r, i, count) for r in rows), *(t.value(i) for t in tiles))
            for i in range(count)
        ]
        own = [[total(values, self.of_row(i).shape, self.inside) for values in several[i]] for i in range(count)]
        return tuple(pack([self.rows.complete(of_row) for of_row in sums]) for sums in zip(*own, strict=True))

    def apply(self, function: Callable[..., Any], rows: Any, columns: Any, tiles: Any) -> None:
        for i in range(self.rows.count):
            others = [*(pick(r, i, self.rows.count) for r in rows), *(c.value for c in columns)]
            self.of_row(i).store(function(self.value(i), *others, *(t.value(i) for t in tiles)))


class AccumulatorFragment(QuadRows):
    """A register tensor of layout ((2, 2, columns / 8), 1, 1), whose mode (0, 1) tells the thread's two rows apart."""

    def __init__(self, values: Any, rows: RowMap, inside: Any = None) -> None:
        self.values, self.rows, self.inside = values, rows, inside

    def of_row(self, i: int) -> Any:
        return self.pairs(i, 0, cute.size(self.values) // 4)

    def pairs(self, i: int, first: int, count: int) -> Any:
        """A view of `count` pairs of row i."""
        layout = cute.make_layout((2, count), stride=(1, 4))
        return cute.make_tensor(self.values.iterator + (4 * first + 2 * i), layout)


class Part(QuadRows):
    """The columns of a staged part of an accumulator; a view."""

    def __init__(self, fragment: AccumulatorFragment, part: int, columns: int) -> None:
        self.fragment, self.part, self.rows = fragment, part, fragment.rows
        self.count = columns // 8
        first = part * self.count
        self.inside = None if fragment.inside is None else fragment.inside[first : first + self.count]

    def of_row(self, i: int) -> Any:
        return self.fragment.pairs(i, self.part * self.count, self.count)


class QuadFragment(QuadRows):
    """A tile read from global memory, a register tensor for each of the thread's rows, in the tensor's own type."""

    def __init__(self, loaded: list[Any], rows: RowMap, inside: Any = None) -> None:
        self.loaded, self.rows, self.inside = loaded, rows, inside

    def of_row(self, i: int) -> Any:
        return self.loaded[i]


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
        return pack([self.rows.complete(total(values, self.loaded.shape)) for values in own])


class RowFragment(Traced):
    """One row a thread, or its share of one. What was loaded is converted where it is used, so that loads stay in flight until
    then; `apply` binds a new value, so a fragment is made and used within one straight piece of a program. What columns do to it
    is put off until it is used: by a write, chunk by chunk."""

    def __init__(self, loaded: Any, rows: RowMap, inside: Any = None) -> None:
        self.loaded, self.rows, self.applied = loaded, rows, None
        self.put_off: list[tuple[Callable[..., Any], Any]] = []  # functions of the value, and the columns they take
        self.inside = inside  # for each chunk of a ragged row, whether it lies inside the tensor; None where all do

    def element(self, i: int, j: int) -> Any:
        """One of this thread's elements, float32. What is put off is done first, for all of them."""
        value = self.value if self.put_off else self.applied
        return self.loaded[i, j].to(Float32) if value is None else value[(i, j)]

    def like(self, values: Any) -> "RowFragment":
        """Another of the same shape, of these values, to which nothing is yet to be done."""
        made = RowFragment(self.loaded, self.rows, self.inside)
        made.applied = values
        return made

    @property
    def value(self) -> Any:
        """This thread's elements, float32."""
        for function, columns in self.put_off:
            self.applied = function(self.before, *(c.value for c in columns))
        self.put_off = []
        return self.before

    @property
    def before(self) -> Any:
        """The value without what is put off."""
        return self.loaded.load().to(Float32) if self.applied is None else self.applied

    def chunk(self, j: int) -> Any:
        """One chunk of the value."""
        value = self.before[None, j]
        for function, columns in self.put_off:
            value = function(value, *(c.chunk(j) for c in columns))
        return value

    def row_sum(self, function: Callable[..., Any], rows: Any, tiles: Any) -> Any:
        return self.rows.complete(self.own_sum(function(self.value, *rows, *(t.value for t in tiles))))

    def row_sums(self, function: Callable[..., Any], rows: Any, tiles: Any) -> tuple[Any, ...]:
        several = function(self.value, *rows, *(t.value for t in tiles))
        return self.rows.complete_all([self.own_sum(values) for values in several])

    def own_sum(self, values: Any) -> Any:
        """Of the thread's elements that lie inside the tensor."""
        return total(values, self.loaded.shape, self.inside)

    def apply(self, function: Callable[..., Any], rows: Any, columns: Any, tiles: Any) -> None:
        if columns and not rows and not tiles:
            self.put_off.append((function, columns))
        else:
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


def total(values: Any, shape: Any, inside: Any = None) -> Any:
    """The sum of a thread's own elements, (vector, chunks) of them; of those chunks that lie inside the tensor."""
    if inside is None:
        return values.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    held, own = cute.make_rmem_tensor(shape, Float32), Float32(0.0)
    held.store(values)
    for j, within in enumerate(inside):
        chunk = held[0, j]
        for i in range(1, shape[0]):
            chunk = chunk + held[i, j]
        own = Float32(select(within, own + chunk, own))
    return own


def chunks_inside(first: Any, step: int, count: int, extent: int) -> list[Any]:
    """For chunks that start at first, first + step, …, whether each lies inside a row of `extent` columns."""
    return [first + j * step < extent for j in range(count)]


def zeros(rows: RowMap) -> Any:
    """A rows value of zeros."""
    return pack([Float32(0.0)] * rows.count)


def select(condition: Any, a: Any, b: Any) -> Any:
    """a where `condition` holds, else b, without a branch. What is known while tracing, as all of a single CTA's columns are, costs nothing."""
    if isinstance(condition, bool):
        return a if condition else b
    return cutlass.select_(condition, a, b)
