"""Plans of hyper-connections: how tokens and their streams are cut into threads and CTAs."""

from dataclasses import dataclass

from cute_kernels.hyper_connection import streams
from cute_kernels.hyper_connection.add_parts import add
from cute_kernels.hyper_connection.backward_post import differentiate
from cute_kernels.hyper_connection.backward_pre import spread
from cute_kernels.hyper_connection.forward_post import mix
from cute_kernels.hyper_connection.forward_pre import coefficients, collapse, collapse_normed
from cute_kernels.hyper_connection.project_sm90 import load, project
from cute_kernels.plan import (
    Buffer,
    Drain,
    Fill,
    Memory,
    Plan,
    PlanError,
    Product,
    Ring,
    Role,
    Roles,
    Target,
    Tensor,
    itemsize,
)
from cute_kernels.plan.plan import barriers
from cute_kernels.plan.roles import WARP

THREADS = 128
# Elements of each stream a thread holds, so that some 40 are in flight; of 4 streams and f 80 bytes. Reasoned, untuned.
POST_ELEMENTS = 8
PRE_ELEMENTS, PRE_LANES = 16, WARP
# Where a token waits in registers, smaller pieces: more CTAs overlap one's exchange with another's loads.
NORMED_ELEMENTS, HELD_MOST = 8, 128
BESIDE = {2: 48, 4: 48, 8: 128}  # registers a thread needs beside the token, read off the compiler
# Backward, a warp a token, so that its sums need shuffles alone; CTAs an SM that leave registers enough, read off the compiler.
BACKWARD_ELEMENTS = 8
PARTS_LANES = 8
TERMS, PROJECT_BYTES = 2, 110 << 10  # terms of a weight; stages of a CTA, two of which share an SM
POST_BACKWARD_CTAS, PRE_BACKWARD_CTAS = {2: 6, 4: 4, 8: 2}, {2: 8, 4: 6, 8: 3}
# CTAs an SM that leave a thread the registers it needs, by the number of streams; read off the compiler.
POST_CTAS = {2: 8, 4: 7, 8: 2}


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


def plan(problem: Problem, target: Target) -> Plan:
    """The plan of an operator."""
    if isinstance(problem, Post):
        return plan_post(problem, target)
    if isinstance(problem, Pre):
        return plan_normed(problem, target) if problem.normed else plan_pre(problem, target)
    if isinstance(problem, PostBackward):
        return plan_post_backward(problem, target)
    if isinstance(problem, Project):
        return plan_project(problem, target)
    return plan_pre_backward(problem, target) if isinstance(problem, PreBackward) else plan_parts(problem, target)


def plan_post(problem: Post, target: Target) -> Plan:
    """A CTA a tile of tokens and slice of their columns: the hardware overlaps one CTA's loads with another's stores."""
    c = cut(problem.h, problem.vector, problem.elements, THREADS)
    n = problem.n
    tensors = [stream(name, problem, c) for name in ("f", *streams.names("x", n))]
    tensors += [stream(name, problem, c, output=True) for name in streams.names("out", n)]
    tensors += [table("post", n, c.rows), table("comb", n * n, c.rows)]
    return Plan(
        operator="mhc_post",
        target=target,
        problem=problem,
        rows=c.rows,
        cluster=1,
        slices=c.slices,
        roles=Roles((Role("mix", mix, warps=c.rows * c.lanes // WARP),)),
        memory=Memory(()),
        tensors=tuple(tensors),
        persistent=False,
        ctas_an_sm=POST_CTAS[n],
        why=why(problem, c, n + 1),
    )


def plan_pre(problem: Pre, target: Target) -> Plan:
    """The same cut, a warp a token: one more warp has the coefficients of a tile's tokens, in the CTA of their first columns."""
    c = cut(problem.h, problem.vector, problem.elements, PRE_LANES)
    n = problem.n
    roles = Roles(
        (
            Role("collapse", collapse, warps=THREADS // WARP),
            Role("coefficients", coefficients, warps=max(1, c.rows // WARP)),
        )
    )
    registers = 96 if n <= 4 and problem.splits <= 16 else 192  # a thread needs, read off the compiler
    return Plan(
        operator="mhc_pre_big_fuse",
        target=target,
        problem=problem,
        rows=c.rows,
        cluster=1,
        slices=c.slices,
        roles=roles,
        memory=Memory(()),
        tensors=tensors_of_pre(problem, c),
        persistent=False,
        ctas_an_sm=max(1, target.registers // (registers * roles.threads)),
        why=(
            *why(problem, c, n),
            "the coefficients have a warp of their own, a thread a matrix: Sinkhorn's chain is as long as the loads of X",
        ),
    )


def plan_normed(problem: Pre, target: Target) -> Plan:
    """A token a cluster, in registers: what its CTAs wait for is each other's sums of squares."""
    c, held = cut_normed(problem, target)
    role = Role("collapse", collapse_normed, warps=THREADS // WARP)
    mail = Ring(
        "mail", 1 if c.slices > 1 else 0, role.name, role.name, ("letters",),
        fill=Fill.MAIL, drain=Drain.PEERS, each=role.name,
    )  # fmt: skip
    buffers = (
        Buffer("letters", (c.slices, c.rows), "float32", each=role.name),
        Buffer("sums", (c.rows, max(1, c.lanes // WARP)), "float32"),
    )
    roles = Roles((role,))
    return Plan(
        operator="mhc_pre_big_fuse_with_prenorm",
        target=target,
        problem=problem,
        rows=c.rows,
        cluster=c.slices,
        roles=roles,
        memory=Memory(buffers, barriers=barriers((mail,), roles), members=((role.name, 1),)),
        tensors=tensors_of_pre(problem, c),
        rings=(mail,),
        persistent=False,
        ctas_an_sm=max(1, target.registers // ((held + BESIDE[problem.n]) * roles.threads)),
        why=(
            *why(problem, c, problem.n),
            "small CTAs: of those that share a token, all but one are gone while its Sinkhorn matrix is found",
        ),
    )


def plan_post_backward(problem: PostBackward, target: Target) -> Plan:
    """df, dx and the tables' gradients."""
    c = cut(problem.h, problem.vector, problem.elements, WARP)
    role = Role("differentiate", differentiate, warps=THREADS // WARP)
    tensors = tensors_of_post_backward(problem, c)
    return plan_backward("mhc_post_backward", problem, target, c, role, tensors, POST_BACKWARD_CTAS[problem.n])


def plan_pre_backward(problem: PreBackward, target: Target) -> Plan:
    """dx and the gradient of pre."""
    c = cut(problem.h, problem.vector, problem.elements, WARP)
    role = Role("spread", spread, warps=THREADS // WARP)
    tensors = tensors_of_pre_backward(problem, c)
    return plan_backward("mhc_pre_backward", problem, target, c, role, tensors, PRE_BACKWARD_CTAS[problem.n])


def plan_backward(
    operator: str, problem: Wide, target: Target, c: Cut, role: Role, tensors: tuple[Tensor, ...], ctas_an_sm: int
) -> Plan:
    """As big_fuse cuts: a CTA's sums over its columns are a part for somebody to add."""
    return Plan(
        operator=operator,
        target=target,
        problem=problem,
        rows=c.rows,
        cluster=1,
        slices=c.slices,
        roles=Roles((role,)),
        memory=Memory(()),
        tensors=tensors,
        persistent=False,
        ctas_an_sm=ctas_an_sm,
        why=(
            *why(problem, c, sum(not t.output and not t.table for t in tensors)),
            "a part of the sums from each CTA: no exchange, and always the same order",
        ),
    )


def projects(problem: Project, target: Target) -> bool:
    """Whether there is a kernel: on Hopper, of parts that have a step each, of 2 or 4 streams. The compiler (4.8.1) ends in a fault on the 160
    columns of 8; TMA asks for rows of 16 bytes' multiples."""
    aligned = problem.k * itemsize(problem.dtype) % 16 == 0
    return target.generation == "Hopper" and problem.splits <= problem.steps and problem.n < 8 and aligned


def plan_project(problem: Project, target: Target) -> Plan:
    """Hopper: a CTA for each 128 tokens and part of K, two an SM, so that one's stages are on their way while the other ends."""
    if not projects(problem, target):
        raise PlanError(f"{problem.splits} parts of {problem.steps} steps, {problem.n} streams, {target.generation}")
    roles = Roles((Role("load", load, warps=1), Role("project", project, warps=4, members=2)))
    rows, depth, columns = problem.rows, problem.depth, TERMS * problem.mixes
    stages = PROJECT_BYTES // ((rows + columns) * depth * itemsize(problem.dtype))
    ring = Ring("operands", stages, "load", "project", ("x_tiles", "weight_tiles"))
    return Plan(
        operator="mhc_project",
        target=target,
        problem=problem,
        rows=rows,
        cluster=1,
        slices=problem.splits,
        roles=roles,
        memory=Memory(
            buffers=(
                Buffer("x_tiles", (rows, depth), problem.dtype, stages, swizzled=True),
                Buffer("weight_tiles", (columns, depth), problem.dtype, stages, swizzled=True),
            ),
            barriers=barriers((ring,), roles),
        ),
        tensors=(
            Tensor("x", problem.dtype, ("m", problem.k), (rows, depth), "x_tiles"),
            Tensor("weight", problem.dtype, (columns, problem.k), (columns, depth), "weight_tiles"),
            table("dot_mix", problem.mixes, rows // 2, problem.splits, output=True),
            table("sqrsum", 1, rows // 2, problem.splits, output=True),
        ),
        rings=(ring,),
        products=(Product("product", "project", "x_tiles", "weight_tiles", (rows // 2, columns, depth)),),
        ctas_an_sm=2,
        persistent=False,
        why=(
            f"{stages} stages, {stages * (rows + columns) * depth * itemsize(problem.dtype)} bytes in flight a CTA",
            f"{TERMS} terms of the weight: what rounding leaves of it is multiplied too, and costs the tensor cores little",
        ),
    )


def plan_parts(problem: Parts, target: Target) -> Plan:
    """As many lanes a token as columns can be shared out over, but several tokens a warp."""
    rows = THREADS // PARTS_LANES
    return Plan(
        operator="mhc_add_parts",
        target=target,
        problem=problem,
        rows=rows,
        cluster=1,
        roles=Roles((Role("add", add, warps=THREADS // WARP),)),
        memory=Memory(()),
        tensors=(
            table("total", problem.columns, rows, output=True),
            table("parts", problem.columns, rows, problem.splits),
        ),
        persistent=False,
        why=(f"{PARTS_LANES} lanes a token share out its columns",),
    )


def tensors_of_post_backward(problem: PostBackward, c: Cut) -> tuple[Tensor, ...]:
    """dout, what the gradients asked for need, and these."""
    p, n = problem, problem.n
    wide = [(name, False) for name in streams.names("dout", n)]
    wide += [(name, False) for name in ("f", *streams.names("x", n))] if p.dtables else []
    wide += [("df", True)] if p.df else []
    wide += [(name, True) for name in streams.names("dx", n)] if p.dx else []
    tables = [table("post", n, c.rows)] if p.df else []
    tables += [table("comb", n * n, c.rows)] if p.dx else []
    tables += [table("parts", n + n * n, c.rows, c.slices, output=True)] if p.dtables else []
    return *(stream(name, problem, c, output) for name, output in wide), *tables


def tensors_of_pre_backward(problem: PreBackward, c: Cut) -> tuple[Tensor, ...]:
    """The gradient of layer_input, what the gradients asked for need, and these."""
    p, n, mixes = problem, problem.n, problem.n * (2 + problem.n)
    wide = [("dlayer_input", False)]
    wide += [(name, False) for name in streams.names("x", n)] if p.dtables else []
    wide += [(name, True) for name in streams.names("dx", n)] if p.dx else []
    given = (
        table("dot_mix", mixes, c.rows, p.splits),
        table("sqrsum", 1, c.rows, p.splits),
        *parameters(mixes),
    )
    tables = [*given] if p.dx else []
    tables += [table("parts", n, c.rows, c.slices, output=True)] if p.dtables else []
    return *(stream(name, problem, c, output) for name, output in wide), *tables


def stream(name: str, problem: Wide, c: Cut, output: bool = False) -> Tensor:
    """[m, h], a CTA's columns of it at a time."""
    return Tensor(name, problem.dtype, ("m", problem.h), (c.rows, c.columns), vector=problem.vector, output=output)


def parameters(mixes: int) -> tuple[Tensor, Tensor]:
    """scale and base, the same for every token."""
    scale = Tensor("scale", "float32", (3,), (3,), table=True)
    return scale, Tensor("base", "float32", (mixes,), (mixes,), vector=4, table=True)


def cut_normed(problem: Pre, target: Target) -> tuple[Cut, int]:
    """Elements are doubled until a portable cluster holds the token, or, where registers end first, one as large as there is; how many
    elements of a token a thread holds."""
    elements = problem.elements
    while True:
        c, held = cut(problem.h, problem.vector, elements, THREADS), elements * problem.n
        most = target.cluster_portable if 2 * held <= HELD_MOST else target.cluster_most
        if c.slices <= most:
            return c, held
        if 2 * held > HELD_MOST:
            raise PlanError(f"{problem.n} streams of {problem.h} columns; {most} CTAs hold {most * THREADS * elements}")
        elements *= 2


def tensors_of_pre(problem: Pre, c: Cut) -> tuple[Tensor, ...]:
    """X, the mixes and their sums of squares where they are given, parameters, outputs."""
    n, mixes = problem.n, problem.mixes
    return (
        *(stream(name, problem, c) for name in streams.names("x", n)),
        table("dot_mix", mixes, c.rows, problem.splits),
        *(() if problem.normed else (table("sqrsum", 1, c.rows, problem.splits),)),
        *parameters(mixes),
        table("post", n, c.rows, output=True),
        table("comb", n * n, c.rows, output=True),
        stream("layer_input", problem, c, output=True),
    )


def why(problem: Wide, c: Cut, streams_read: int) -> tuple[str, ...]:
    """What the cut is for."""
    in_flight = problem.elements * streams_read * itemsize(problem.dtype)
    return (
        f"{c.lanes} threads a token, {in_flight} bytes in flight a thread: {problem.elements} elements of {streams_read} streams",
        f"{c.slices} CTAs share a token's columns and exchange nothing: few tokens fill the machine too",
    )


def table(name: str, columns: int, rows: int, splits: int = 0, output: bool = False) -> Tensor:
    """[m, columns], or [splits, m, columns], float32 without gaps. Splits are read together, and written by a CTA each."""
    parts = (splits,) if splits else ()
    box = ((1,) if output else parts) if splits else ()
    vector = next(width for width in (4, 2, 1) if columns % width == 0)
    return Tensor(
        name, "float32", (*parts, "m", columns), (*box, rows, columns), vector=vector, output=output, table=True
    )
