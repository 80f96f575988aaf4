"""Plans of hyper-connections, forward; those of the rest by their problems."""

from cute_kernels.hyper_connection import streams
from cute_kernels.hyper_connection.cut import (
    NORMED_ELEMENTS,
    PRE_LANES,
    THREADS,
    Cut,
    Parts,
    Post,
    PostBackward,
    Pre,
    PreBackward,
    Problem,
    Project,
    cut,
    parameters,
    stream,
    table,
    why,
)
from cute_kernels.hyper_connection.forward_post import mix
from cute_kernels.hyper_connection.forward_pre import coefficients, collapse, collapse_normed
from cute_kernels.hyper_connection.plan_backward import plan_parts, plan_post_backward, plan_pre_backward
from cute_kernels.hyper_connection.plan_project import plan_project
from cute_kernels.plan import Buffer, Drain, Fill, Memory, Plan, PlanError, Ring, Role, Roles, Target, Tensor
from cute_kernels.plan.plan import barriers
from cute_kernels.plan.roles import WARP

__all__ = ["NORMED_ELEMENTS", "Parts", "Post", "PostBackward", "Pre", "PreBackward", "Problem", "Project", "plan"]

# CTAs an SM that leave a thread the registers it needs, by the number of streams; read off the compiler.
POST_CTAS = {2: 8, 4: 7, 8: 2}
BESIDE = {2: 48, 4: 48, 8: 128}  # registers a thread needs beside a token it holds, likewise
HELD_MOST = 128  # elements of a token in a thread's registers


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
