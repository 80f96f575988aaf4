"""What the plans of hyper-connections share: their problems, how tokens are cut into threads and CTAs, and their tensors."""

from dataclasses import dataclass

from cute_kernels.plan import PlanError, Tensor, itemsize
from cute_kernels.plan.roles import WARP

THREADS = 128
# Elements of each stream a thread holds, so that some 40 are in flight; of 4 streams and f 80 bytes. Reasoned, untuned.
POST_ELEMENTS = 8
PRE_ELEMENTS, PRE_LANES = 16, WARP
# Where a token waits in registers, smaller pieces: more CTAs overlap one's exchange with another's loads.
NORMED_ELEMENTS = 8
# Backward, a warp a token, so that its sums need shuffles alone.
BACKWARD_ELEMENTS = 8


@dataclass(frozen=True)
class Post:
    """Compile-time facts of out[m, n, h] = f · post + combᵀ · x.

    vector    elements of a stream a thread moves at once
    elements  of a stream a thread holds
    """

    n: int
    h: int
    dtype: str = "bfloat16"
    vector: int = 1
    elements: int = POST_ELEMENTS


@dataclass(frozen=True)
class Pre:
    """Compile-time facts of post, comb and layer_input[m, h] from mixes in `splits` parts and x[m, n, h].

    normed            the sums of squares are not given: they are found here
    vector, elements  as of Post
    """

    n: int
    h: int
    dtype: str = "bfloat16"
    splits: int = 1
    rms_eps: float = 1e-6
    pre_eps: float = 1e-6
    sinkhorn_eps: float = 1e-6
    post_mult: float = 2.0
    repeats: int = 20
    normed: bool = False
    vector: int = 1
    elements: int = PRE_ELEMENTS

    @property
    def mixes(self) -> int:
        """Columns of dot_mix: pre, post, comb."""
        return self.n * (2 + self.n)


@dataclass(frozen=True)
class PostBackward:
    """Compile-time facts of the gradients of Post: of f, of x, and of both tables; vector and elements as there."""

    n: int
    h: int
    dtype: str = "bfloat16"
    df: bool = True
    dx: bool = True
    dtables: bool = True
    vector: int = 1
    elements: int = BACKWARD_ELEMENTS


@dataclass(frozen=True)
class PreBackward:
    """Compile-time facts of the gradients of Pre's layer_input: of x, and of pre; the rest as in Pre."""

    n: int
    h: int
    dtype: str = "bfloat16"
    splits: int = 1
    rms_eps: float = 1e-6
    pre_eps: float = 1e-6
    dx: bool = True
    dtables: bool = True
    vector: int = 1
    elements: int = BACKWARD_ELEMENTS


@dataclass(frozen=True)
class Project:
    """Compile-time facts of dot_mix[splits, m, mixes] = x[m, n · h] · Wᵀ in parts along K; `rows` and `depth` of a CTA's tile."""

    n: int
    h: int
    dtype: str = "bfloat16"
    splits: int = 1
    rows: int = 128
    depth: int = 64  # 128 bytes, a swizzle span

    @property
    def k(self) -> int:
        return self.n * self.h

    @property
    def mixes(self) -> int:
        return self.n * (2 + self.n)

    @property
    def steps(self) -> int:
        """Stages of K, over all parts."""
        return -(-self.k // self.depth)


@dataclass(frozen=True)
class Parts:
    """Compile-time facts of total[m, columns] = Σ parts[splits, m, columns], float32."""

    splits: int
    columns: int


Problem = Post | Pre | PostBackward | PreBackward | Parts | Project
Wide = Post | Pre | PostBackward | PreBackward  # problems of streams


@dataclass(frozen=True)
class Cut:
    """How tokens are cut: threads that share one in a CTA, tokens of a CTA's tile, CTAs that share the tile, columns of each."""

    lanes: int
    rows: int
    slices: int
    columns: int


def cut(h: int, vector: int, elements: int, lanes_most: int) -> Cut:
    """Lanes are a power of two; each holds `elements` columns, fewer where streams are short or slices even."""
    if h < 1:
        raise PlanError(f"streams of {h} columns; a stream has one at least")
    lanes = 1
    while lanes * elements < h and lanes < lanes_most:
        lanes *= 2
    slices = -(-h // (lanes * elements))
    columns = -(-(-(-h // slices)) // vector) * vector
    return Cut(lanes, THREADS // lanes, slices, columns)


def stream(name: str, problem: Wide, c: Cut, output: bool = False) -> Tensor:
    """[m, h], a CTA's columns of it at a time."""
    return Tensor(name, problem.dtype, ("m", problem.h), (c.rows, c.columns), vector=problem.vector, output=output)


def table(name: str, columns: int, rows: int, splits: int = 0, output: bool = False) -> Tensor:
    """[m, columns], or [splits, m, columns], float32 without gaps. Splits are read together, and written by a CTA each."""
    parts = (splits,) if splits else ()
    box = ((1,) if output else parts) if splits else ()
    vector = next(width for width in (4, 2, 1) if columns % width == 0)
    return Tensor(
        name, "float32", (*parts, "m", columns), (*box, rows, columns), vector=vector, output=output, table=True
    )


def parameters(mixes: int) -> tuple[Tensor, Tensor]:
    """scale and base, the same for every token."""
    scale = Tensor("scale", "float32", (3,), (3,), table=True)
    return scale, Tensor("base", "float32", (mixes,), (mixes,), vector=4, table=True)


def why(problem: Wide, c: Cut, streams_read: int) -> tuple[str, ...]:
    """What the cut is for."""
    in_flight = problem.elements * streams_read * itemsize(problem.dtype)
    return (
        f"{c.lanes} threads a token, {in_flight} bytes in flight a thread: {problem.elements} elements of {streams_read} streams",
        f"{c.slices} CTAs share a token's columns and exchange nothing: few tokens fill the machine too",
    )
