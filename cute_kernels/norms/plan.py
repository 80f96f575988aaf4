"""Plans of the norms alone, forward and backward: how a row is cut into threads and CTAs."""

from collections.abc import Callable
from dataclasses import dataclass

from cute_kernels.norms.backward import differentiate
from cute_kernels.norms.forward import normalise
from cute_kernels.plan import Buffer, Drain, Fill, Memory, Plan, PlanError, Ring, Role, Roles, Target, Tensor, itemsize
from cute_kernels.plan.plan import barriers
from cute_kernels.plan.roles import WARP

# All by measurement on the H200, 65536 rows of bf16; the ladder is in README.md.
# Elements of a row a thread holds: 32 (16 lose a quarter of the bandwidth: too few bytes in flight), 64 from LONG columns on, so that CTAs
# stay small; of a layer norm, whose threads meet twice, earlier.
ELEMENTS, ELEMENTS_LONG, LONG, LONG_CENTRE = 32, 64, 8193, 2048
THREADS, THREADS_CENTRE = 256, 128  # of a CTA, at least
THREADS_MOST = 512
ROW, ROW_HEAVY = 16384, 8192  # columns of a row a CTA takes, at most; with a residual, for want of registers
# Sums of a row at once, at most; with fewer letters than that they cross a cluster one after the other.
SUMS, LETTERS = 3, 2
# Backward holds x̂, dy, the weight and up to two sums of every column, of 16 KiB of x an SM: short rows 32 a thread and few partial sums,
# longer ones 16, since their threads meet. Eight lanes a row at least: the rows' threads add up their columns one by one. For a mean, or a
# third tile to read, a CTA has no registers for 8192 columns, unless a cluster's exchange parts what it holds before from what it holds after.
BACKWARD_ELEMENTS, BACKWARD_ELEMENTS_LONG, BACKWARD_LONG = 32, 16, 2048
BACKWARD_THREADS, BACKWARD_LANES, BACKWARD_ROW, BACKWARD_ROW_HEAVY, BACKWARD_SM = 128, 8, 8192, 4096, 16384


@dataclass(frozen=True)
class Norm:
    """Compile-time facts of y[m, n] = norm(x [+ residual]) · (weight_offset + weight) [+ bias].

    centre        subtract the mean: layer norm; else rms norm
    weight_dtype, bias_dtype  "" without one
    residual      add a second input before normalising; return_sum writes the sum, return_stats rstd (and mean)
    vector        elements a thread moves at once: as many as base pointers and row pitches are aligned to, 16 bytes at most
    row           columns one CTA takes; tests shrink it to get clusters out of short rows
    """

    n: int
    dtype: str
    weight_dtype: str = ""
    bias_dtype: str = ""
    weight_offset: float = 0.0
    eps: float = 1e-6
    centre: bool = False
    residual: bool = False
    return_sum: bool = False
    return_stats: bool = False
    vector: int = 1
    row: int = ROW


@dataclass(frozen=True)
class NormBackward:
    """Compile-time facts of its gradients; names as in Norm.

    dx, dweight, dbias  which are computed
    dsum                a gradient of the returned sum is there, to be added to dx
    """

    n: int
    dtype: str
    weight_dtype: str = ""
    weight_offset: float = 0.0
    centre: bool = False
    residual: bool = False
    dx: bool = True
    dweight: bool = False
    dbias: bool = False
    dsum: bool = False
    vector: int = 1
    row: int = BACKWARD_ROW


@dataclass(frozen=True)
class Cut:
    """How rows are cut: CTAs a row, columns of each, threads that share a row in a CTA, rows of a CTA's tile."""

    cluster: int
    columns: int
    lanes: int
    rows: int

    def role(self, name: str, program: Callable[..., None]) -> Role:
        """The one role of a CTA. A row of several warps beside others is a team: its threads meet without the others."""
        teams = self.rows if self.lanes > WARP and self.rows > 1 else 0
        return Role(name, program, warps=self.rows * self.lanes // WARP, teams=teams)


def cut(
    problem: Norm | NormBackward, target: Target, elements: int, threads: int, row: int = ROW, lanes: int = 1
) -> Cut:
    """Lanes are a power of two, so that a row is part of a warp's or whole warps'; each holds about `elements` of the row. A CTA has
    `threads` or more, a row `lanes` or more; a CTA takes `row` columns at most where a cluster can share the row."""
    n, vector = problem.n, problem.vector
    if n < 1:
        raise PlanError(f"rows of {n} columns; a row has one at least")
    cluster = min(-(-n // min(row, problem.row)), target.cluster_most)
    if n > cluster * ROW:
        raise PlanError(f"rows of {n} columns; {target.cluster_most} CTAs of {ROW} share one")
    columns = -(-(-(-n // cluster)) // vector) * vector
    while lanes * elements < columns and lanes < THREADS_MOST:
        lanes *= 2
    return Cut(cluster, columns, lanes, max(threads, lanes) // lanes)


def plan(problem: Norm | NormBackward, target: Target) -> Plan:
    """The plan of a norm or of its backward."""
    return plan_forward(problem, target) if isinstance(problem, Norm) else plan_backward(problem, target)


def plan_forward(problem: Norm, target: Target) -> Plan:
    """A CTA a tile: short rows several a CTA, long rows a CTA each, then a cluster each."""
    c, ahead = cut_forward(problem, target)
    box = Boxes(problem, c, ahead)
    tensors = [box.tile("x"), box.tile("y", output=True)]
    tensors += [box.tile("residual")] if problem.residual else []
    tensors += [box.parameter("weight", problem.weight_dtype)] if problem.weight_dtype else []
    tensors += [box.parameter("bias", problem.bias_dtype)] if problem.bias_dtype else []
    tensors += [box.tile("sum", output=True)] if problem.return_sum else []
    tensors += [box.statistic("rstd", output=True)] if problem.return_stats else []
    tensors += [box.statistic("mean", output=True)] if problem.return_stats and problem.centre else []
    why = (f"a CTA a tile, of {c.rows} row(s): the hardware overlaps one CTA's loads with another's stores",)
    roles = Roles((c.role("normalise", normalise),))
    return assemble(problem, target, c, roles, tuple(tensors), why=why)


def cut_forward(problem: Norm, target: Target) -> tuple[Cut, int]:
    """The cut, and how many vectors of weight and of bias are under way before one is used: no more than leave registers for enough CTAs."""
    if not problem.residual and problem.n >= (LONG_CENTRE if problem.centre else LONG):
        return cut(problem, target, ELEMENTS_LONG, THREADS_CENTRE), 1 if problem.n < ROW else 0
    light = not (problem.centre or problem.residual or problem.bias_dtype)
    threads, row = THREADS_CENTRE if problem.centre else THREADS, ROW_HEAVY if problem.residual else ROW
    return cut(problem, target, ELEMENTS, threads, row), 2 if light else 0


def plan_backward(problem: NormBackward, target: Target) -> Plan:
    """Persistent CTAs where parameters have gradients, so that there are few partial sums; else a CTA a tile."""
    parameters = [name for name, wanted in (("dweight", problem.dweight), ("dbias", problem.dbias)) if wanted]
    elements = BACKWARD_ELEMENTS if problem.n < BACKWARD_LONG else BACKWARD_ELEMENTS_LONG
    third = problem.residual or problem.dsum
    heavy = problem.n <= (target.cluster_most * BACKWARD_ROW_HEAVY if third else problem.centre * BACKWARD_ROW)
    row, lanes = BACKWARD_ROW_HEAVY if heavy else BACKWARD_ROW, BACKWARD_LANES if parameters else 1
    c = cut(problem, target, elements, BACKWARD_THREADS, row, lanes)
    box = Boxes(problem, c)
    tensors = [box.tile("x"), box.tile("dy"), box.statistic("rstd")]
    tensors += [box.tile("dx", output=True)] if problem.dx else []
    tensors += [box.statistic("mean")] if problem.centre else []
    tensors += [box.tile("residual")] if problem.residual else []
    tensors += [box.tile("dsum")] if problem.dsum else []
    tensors += [box.parameter("weight", problem.weight_dtype)] if problem.weight_dtype and problem.dx else []
    tensors += [box.partials(name) for name in parameters]
    roles = Roles((c.role("differentiate", differentiate),))
    ctas = max(1, BACKWARD_SM // (roles.threads * elements * itemsize(problem.dtype))) if parameters else 0
    walking = f"{ctas} CTAs an SM, walking: {len(parameters)} sums a column stay in registers from tile to tile"
    return assemble(problem, target, c, roles, tuple(tensors), ctas, why=(walking if parameters else "a CTA a tile",))


@dataclass(frozen=True)
class Boxes:
    """The tensors of a norm, all cut alike."""

    problem: Norm | NormBackward
    cut: Cut
    ahead: int | None = None

    def tile(self, name: str, output: bool = False) -> Tensor:
        """[m, n] in the dtype of x."""
        p, c = self.problem, self.cut
        return Tensor(name, p.dtype, ("m", p.n), (c.rows, c.columns), vector=p.vector, output=output)

    def parameter(self, name: str, dtype: str) -> Tensor:
        """[n], along the columns."""
        columns, vector = (self.cut.columns,), self.problem.vector
        return Tensor(name, dtype, (self.problem.n,), columns, vector=vector, ahead=self.ahead)

    def statistic(self, name: str, output: bool = False) -> Tensor:
        """[m], along the rows."""
        return Tensor(name, "float32", ("m",), (self.cut.rows,), output=output)

    def partials(self, name: str) -> Tensor:
        """[clusters, n]: a row of partial sums of each cluster."""
        return Tensor(
            name,
            "float32",
            ("clusters", self.problem.n),
            (1, self.cut.columns),
            vector=self.problem.vector,
            output=True,
        )


def assemble(
    problem: Norm | NormBackward,
    target: Target,
    c: Cut,
    roles: Roles,
    tensors: tuple[Tensor, ...],
    walking: int = 0,
    why: tuple[str, ...] = (),
) -> Plan:
    """What forward and backward share: letters, sums over warps, and room for the threads of a column to meet.

    walking  CTAs an SM that walk over tiles, adding up columns; 0: a CTA a tile
    """
    (role,) = roles
    letters = LETTERS if problem.residual else SUMS  # all at once take registers that a further tile needs
    mail = Ring(
        "mail", letters if c.cluster > 1 else 0, role.name, role.name, ("letters",),
        fill=Fill.MAIL, drain=Drain.PEERS, each=role.name,
    )  # fmt: skip
    buffers = (
        Buffer("letters", (c.cluster, c.rows), "float32", letters, each=role.name),
        Buffer("sums", (c.rows, SUMS * max(1, c.lanes // WARP)), "float32"),
        *((Buffer("columns", (c.rows, c.columns), "float32"),) if walking and c.rows > 1 else ()),
    )
    return Plan(
        operator="norm" if isinstance(problem, Norm) else "norm_backward",
        target=target,
        problem=problem,
        rows=c.rows,
        cluster=c.cluster,
        roles=roles,
        memory=Memory(buffers, barriers=barriers((mail,), roles), members=((role.name, 1),)),
        tensors=tensors,
        rings=(mail,),
        ctas_an_sm=walking or 1,
        persistent=walking > 0,
        why=(
            f"{c.lanes} threads a row: {-(-c.columns // c.lanes)} elements each, {problem.vector * itemsize(problem.dtype)} bytes a load",
            *why,
            f"cluster of {c.cluster}: a CTA takes {problem.row} columns where a cluster can share the row",
        ),
    )
