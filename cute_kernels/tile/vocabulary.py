"""Every verb: what it means, on what, what it waits for and what it makes visible to whom.

A role program is a function of one context. It finds there, by the names its plan gives them, the rings, products,
stagings, tensor memory and tensors of its role, and the verbs below. Both back ends implement these classes; a test holds
their signatures to this file. Rows and columns of `load`, `store`, `read` and `write` count boxes (Tensor.box), not elements.

Two verbs tell the two orders apart: *release* says my reads are done, *publish* says my writes may be read.
A *fragment* is a tile in the registers of one member of a role, float32. A *rows* value is one float32 a row of it.
A *table* is a float32 tensor of few columns, [k], [m, k] or [splits, m, k] (Tensor.table).
"""

from collections.abc import Callable
from typing import Any, Protocol

Slot = Any  # frozen (index, phase) of a ring
Rows = Any  # one float32 for each row of a fragment: supports + - * /
Columns = Any  # one float32 for each column of a fragment
Fragment = Any


class Ring(Protocol):
    """Stages handed from the role that fills them to the role that drains them."""

    stages: int

    def start(self) -> Slot:
        """The slot a role begins with."""

    def advance(self, slot: Slot) -> Slot:
        """The next slot. Re-bind it in the loop's own body: `slot = ring.advance(slot)`."""

    def skip(self, slot: Slot, count: Any) -> Slot:
        """The slot `count` further on, for whoever leaves those between to other members. Re-bind it likewise."""

    def acquire(self, slot: Slot) -> None:
        """Filler: wait until the stage's readers have released it, then announce what is to come. Orders my writes after their reads."""

    def publish(self, slot: Slot) -> None:
        """Filler, where warps fill the stage: my writes may be read, what I have waited for has happened. Every warp of the member says it once."""

    def wait(self, slot: Slot) -> None:
        """Drainer: wait until the stage is full. What filled it is visible to me afterwards."""

    def release(self, slot: Slot) -> None:
        """Drainer: my reads of the stage are done. Every warp of the member says it once. Reads still in flight make it a fault."""

    def release_after_mma(self, slot: Slot) -> None:
        """Drainer, Blackwell: the stage is released when the products issued so far by this role have read it (tcgen05.commit)."""

    def publish_after_mma(self, slot: Slot) -> None:
        """Filler, Blackwell: the stage is full when the products issued so far by this role are done (tcgen05.commit)."""

    def drain(self, slot: Slot) -> None:
        """Filler, last of all: wait until all stages have been released, so that nobody touches them once the CTA has gone."""


class Mail(Ring, Protocol):
    """A ring between the same member of the CTAs of a cluster, through distributed shared memory. All fill, all drain.

    A stage holds one letter from each CTA, the own one included. `acquire` waits until every CTA has released my last letter
    in this slot; `release` says so to every CTA, behind a proxy fence: an arrival alone does not hold back a letter that would
    overwrite what was just read.
    """

    def send(self, letter: Slot, rows: Rows) -> None:
        """Write `rows` into this CTA's place in the stage of every CTA. Asynchronous: completes on the receivers' full barriers."""

    def receive(self, letter: Slot) -> tuple[Rows, ...]:
        """The letters of all CTAs in order of rank, after `wait`."""


class Product(Protocol):
    """a · bᵀ of two staged buffers. On Hopper a warpgroup issues it and owns the accumulator; on Blackwell one thread issues it
    and accumulators live in tensor memory."""

    def accumulator(self) -> Fragment:
        """Hopper: the accumulator registers, uninitialised; make it once, before the loop."""

    def multiply(self, accumulator: Any, slot: Slot, fresh: Any = False, other: Slot | None = None) -> None:
        """accumulator (+)= a[slot] · b[slot]ᵀ, asynchronous; `fresh` overwrites. On Blackwell `accumulator` is a slot of the accumulators' ring.
        `other` is b's slot where b has a ring of its own.

        Until a wait that covers it neither the accumulator may be touched nor the stage released."""

    def wait(self, pending: int) -> None:
        """Hopper: wait until at most `pending` of the products issued by this member are still in flight."""


class TensorMemory(Protocol):
    """Accumulators in tensor memory (Blackwell)."""

    def read(self, slot: Slot, part: int) -> Fragment:
        """Columns `part` of the accumulator of a stage, into registers; waits for its own loads, nothing else."""

    def free(self) -> None:
        """Give the columns back: once, when nobody will read or write them any more."""


class Staging(Protocol):
    """Parts of a tile on their way out: registers -> shared memory -> TMA -> global memory. A member has its own buffers."""

    parts: tuple[int, ...]

    def acquire(self) -> None:
        """Wait until the store that last used the next buffer has read it, for all threads of the member."""

    def put(self, part: int, fragment: Fragment) -> None:
        """Round the part to the tensor's dtype and write it into its buffer. Ordinary stores: not visible to TMA yet."""

    def publish(self) -> None:
        """My writes may be read: fence them to the async proxy and meet the member's other threads."""

    def store(self, tensor: Any, part: int, row: Any, column: Any) -> None:
        """Start the TMA store of a published part to box (row, column). Rows and columns beyond the tensor are dropped."""

    def drain(self) -> None:
        """Wait until every store of this member has read its buffer, before the CTA's shared memory goes."""


class Context(Protocol):
    """What a program is called with."""

    plan: Any
    first: Any  # row tiles: range(first, tiles, step)
    tiles: Any
    step: Any
    rank: Any  # of the CTA among those that share its rows: in its cluster, or among the slices
    leads: Any  # the first warp of the threads that share a row: where one is enough for what a row has once
    member: Any  # which member of the role this is
    members: int  # of the role

    def bind(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """The program as this back end runs it."""

    def load(self, tensor: Any, ring: Ring, slot: Slot, row: Any, column: Any) -> None:
        """Start the TMA copy of box (row, column) into the tensor's buffer, stage `slot`; its bytes arrive on the ring's full barrier. Of a
        shared tensor, copy this CTA's share of the box's rows to every CTA of the cluster, on their barriers.

        What lies beyond the tensor arrives as zeros."""

    def read(self, tensor: Any, row: Any, column: Any) -> Fragment:
        """Box (row, column) from global memory into registers, by the threads, laid out as the role's fragments.

        Beyond the tensor nothing counts in a row_sum; there are zeros, but in a role with a product anything."""

    def prefetch(self, tensor: Any, row: Any, column: Any) -> None:
        """Box (row, column) will be read soon: start moving it into the L2 cache. A hint: nothing waits, nothing happens beyond the tensor."""

    def read_stage(self, tensor: Any, slot: Slot) -> Fragment:
        """Drainer, Hopper: this member's rows of a tensor's box in a stage, into registers laid out as the accumulator's rows, for `row_sum`.

        Ordinary loads, behind them a proxy fence: a release after it lets the next copy come."""

    def read_columns(self, tensor: Any, column: Any) -> Any:
        """Box `column` of a vector that runs along the columns, laid out as `read` lays out rows: for `apply`."""

    def write(self, tensor: Any, row: Any, column: Any, fragment: Fragment) -> None:
        """Round a fragment to the tensor's dtype and write it to box (row, column), by the threads. Nothing beyond the tensor is written."""

    def read_rows(self, tensor: Any, row: Any) -> Rows:
        """Box `row` of a vector that runs along the rows, as a rows value. Beyond the tensor: zeros."""

    def write_rows(self, tensor: Any, row: Any, rows: Rows) -> None:
        """Write a rows value to box `row` of a vector along the rows. The CTAs of a cluster hold the same value: the first one writes."""

    def read_table(self, tensor: Any, row: Any, first: int, count: int) -> tuple[Rows, ...]:
        """Columns first, first + 1, … of box `row` of a table, as rows values. Beyond the tensor: numbers that mean nothing.

        Splits are read together and added in their order; a table [k] is the same for every row."""

    def write_table(self, tensor: Any, row: Any, values: tuple[Rows, ...]) -> None:
        """Write a rows value for each column of box `row` of a table. CTAs that share the rows hold the same values: the first one writes.

        Of a table of splits each of them writes its own, number `rank`."""

    def write_accumulator(self, tensor: Any, row: Any, accumulator: Fragment) -> None:
        """Hopper: write an accumulator to box `row` of this CTA's split of a table. Where the table has a fraction of its columns, the pieces
        of that width are added."""

    def zero_columns(self, tensor: Any) -> Columns:
        """A columns value of zeros for a box of `tensor`, to add to: make it before the loop."""

    def add_columns(self, columns: Columns, fragment: Fragment, function: Callable[..., Any], tiles: Any = ()) -> None:
        """columns += Σ function(v, *tiles) over the rows of the fragment, in place, in the order of calls."""

    def write_columns(self, tensor: Any, row: Any, column: Any, columns: Columns) -> None:
        """Write a columns value, summed over the rows' threads in a fixed order, to box (row, column) of a tensor of one-row boxes."""

    def part(self, fragment: Fragment, part: int) -> Fragment:
        """The columns of a staged part of an accumulator; a view: what is applied to it is applied to the accumulator."""

    def row_sum(self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), tiles: Any = ()) -> Rows:
        """Σ function(v, *rows, *tiles) over the columns of each row this member holds. All threads of a row get the sum.

        `tiles` are fragments of the same shape. Columns beyond the tensor do not count."""

    def row_sums(
        self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), tiles: Any = ()
    ) -> tuple[Rows, ...]:
        """row_sum of each value that `function` gives. The threads of a row meet once for all of them."""

    def apply(
        self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), columns: Any = (), tiles: Any = ()
    ) -> Fragment:
        """fragment = function(v, *rows, *columns, *tiles), elementwise and in place; returns it."""

    def combine(self, function: Callable[..., Any], tiles: Any, rows: Any = ()) -> tuple[Fragment, ...]:
        """A new fragment of each value that function(*tiles, *rows) gives, elementwise, from fragments of one shape that `read` gave."""

    def zero_rows(self) -> Rows:
        """A rows value of zeros, to add to."""

    def rsqrt(self, rows: Rows) -> Rows:
        """1/√rows in float32 (the hardware's approximation: relative error 2⁻²²)."""

    def reciprocal(self, rows: Rows) -> Rows:
        """1/rows in float32 (the hardware's approximation: relative error 2⁻²³). Of infinity it is 0."""

    def exp(self, rows: Rows) -> Rows:
        """eʳᵒʷˢ in float32, by the hardware's 2ˣ: relative error 2⁻²² + 2⁻²³·|rows|."""

    def maximum(self, one: Rows, other: Rows) -> Rows:
        """The larger of two; which of them where one is NaN, is open."""
