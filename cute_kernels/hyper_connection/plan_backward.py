"""Plans of the gradients of hyper-connections, and of the sums that they leave in parts."""

from cute_kernels.hyper_connection import streams
from cute_kernels.hyper_connection.add_parts import add
from cute_kernels.hyper_connection.backward_post import differentiate
from cute_kernels.hyper_connection.backward_pre import spread
from cute_kernels.hyper_connection.cut import (
    THREADS,
    Cut,
    Parts,
    PostBackward,
    PreBackward,
    Wide,
    cut,
    parameters,
    stream,
    table,
    why,
)
from cute_kernels.plan import Memory, Plan, Role, Roles, Target, Tensor
from cute_kernels.plan.roles import WARP

# CTAs an SM that leave a thread the registers it needs, by the number of streams; read off the compiler.
POST_CTAS, PRE_CTAS = {2: 6, 4: 4, 8: 2}, {2: 8, 4: 6, 8: 3}
PARTS_LANES = 8


def plan_post_backward(problem: PostBackward, target: Target) -> Plan:
    """df, dx and the tables' gradients."""
    c = cut(problem.h, problem.vector, problem.elements, WARP)
    role = Role("differentiate", differentiate, warps=THREADS // WARP)
    tensors = tensors_of_post_backward(problem, c)
    return plan_backward("mhc_post_backward", problem, target, c, role, tensors, POST_CTAS[problem.n])


def plan_pre_backward(problem: PreBackward, target: Target) -> Plan:
    """dx and the gradient of pre."""
    c = cut(problem.h, problem.vector, problem.elements, WARP)
    role = Role("spread", spread, warps=THREADS // WARP)
    tensors = tensors_of_pre_backward(problem, c)
    return plan_backward("mhc_pre_backward", problem, target, c, role, tensors, PRE_CTAS[problem.n])


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
