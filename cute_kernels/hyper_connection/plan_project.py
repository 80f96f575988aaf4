"""The plan of the projection on Hopper."""

from cute_kernels.hyper_connection.cut import Project, table
from cute_kernels.hyper_connection.project_sm90 import load, project
from cute_kernels.plan import Buffer, Memory, Plan, PlanError, Product, Ring, Role, Roles, Target, Tensor, itemsize
from cute_kernels.plan.plan import barriers

TERMS = 2  # of a weight
BYTES = 110 << 10  # of stages in a CTA, two of which share an SM


def projects(problem: Project, target: Target) -> bool:
    """Whether there is a kernel: on Hopper, of parts that have a step each, of 2 or 4 streams: on 8 the compiler (4.8.1) ends in a
    fault. TMA asks for rows of 16 bytes' multiples."""
    aligned = problem.k * itemsize(problem.dtype) % 16 == 0
    return target.generation == "Hopper" and problem.splits <= problem.steps and problem.n < 8 and aligned


def plan_project(problem: Project, target: Target) -> Plan:
    """Hopper: a CTA for each 128 tokens and part of K, two an SM, so that one's stages are on their way while the other ends."""
    if not projects(problem, target):
        raise PlanError(f"{problem.splits} parts of {problem.steps} steps, {problem.n} streams, {target.generation}")
    roles = Roles(
        (Role("project", project, warps=4, members=2), Role("load", load, warps=1))
    )  # wgmma: whole warpgroups
    rows, depth, columns = problem.rows, problem.depth, TERMS * problem.mixes
    stages = BYTES // ((rows + columns) * depth * itemsize(problem.dtype))
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
