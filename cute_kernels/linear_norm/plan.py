"""Plans of linear_norm: who does what on Hopper and on Blackwell, in which memory, and why."""

from dataclasses import dataclass

from cute_kernels.linear_norm import forward_sm90, forward_sm100
from cute_kernels.linear_norm.load import load, load_resident
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
    Staging,
    Target,
    Tensor,
    TensorMemory,
)
from cute_kernels.plan.plan import barriers

# A thread's registers by the number of consumers that take turns: together what a launch of that many warpgroups gets.
LOAD_REGISTERS, TURN_REGISTERS = {2: 40, 3: 40, 4: 32}, {2: 232, 3: 152, 4: 112}
RESIDENT_K, RESIDENT_N = (
    512,
    (384, 512),
)  # slices of 128 columns of such a weight stay in shared memory, over clusters of four
PAIR = 2  # neighbouring columns of a thread in a wgmma accumulator
CHUNK = 8  # columns of 16 bytes: what TMA's pitches are multiples of


@dataclass(frozen=True)
class Tiling:
    """Sizes of a CTA's tile. The defaults are the real ones; tests shrink them to run many schedules."""

    rows: int = 128
    columns_most: int = 256  # the widest wgmma and tcgen05 product
    depth: int = 64  # of K in a stage: 128 bytes of a 16-bit type, a swizzle span
    part: int = 64  # columns of a stored part: a swizzle span again
    stages_most: int = 8
    staged: int = 2  # parts on their way out, of each member, at least
    letters: int = 2  # row sums on their way between CTAs, of each member
    accumulators: int = 2  # Blackwell: tiles in tensor memory
    turns: int = 0  # Hopper: consumers that take tiles in turn, the weight resident; 0 shares operands between two
    turn_rows: int = 64  # rows of such a tile: the height of a wgmma
    multicast: bool = False  # Hopper: each CTA of a cluster loads a share of x's rows for all


@dataclass(frozen=True)
class LinearNorm:
    """Compile-time facts of z[m, n] = x[m, k] · weight[n, k]ᵀ + bias + residual, y = norm(z) · norm_weight + norm_bias.

    bias_dtype, norm_weight_dtype, norm_bias_dtype  "" without one
    residual      add a second input to the product; return_z writes z, return_stats rstd (and mean)
    """

    k: int
    n: int
    dtype: str
    norm: str = "rms"
    eps: float = 1e-6
    bias_dtype: str = ""
    norm_weight_dtype: str = ""
    norm_bias_dtype: str = ""
    residual: bool = False
    return_z: bool = False
    return_stats: bool = False
    tiling: Tiling = Tiling()

    @property
    def centre(self) -> bool:
        """Whether the mean is subtracted."""
        return self.norm == "layer"

    @property
    def steps(self) -> int:
        """Stages of K in a tile, the ragged last one included."""
        return -(-self.k // self.tiling.depth)

    @property
    def cluster(self) -> int:
        """CTAs that share a row: as few as hold it."""
        return -(-self.n // self.tiling.columns_most)

    @property
    def columns(self) -> int:
        """Columns of one CTA, in whole parts; those of the cluster may be more than there are, by less than a part a CTA."""
        part = self.tiling.part
        return -(-self.n // (self.cluster * part)) * part

    @property
    def staged(self) -> int:
        """Parts on their way out of each member: a divisor of a tile's parts, so that every tile begins at the first buffer. One where
        consumers take turns: the wait for it is hidden too, and x gets the room."""
        parts, least = self.columns // self.tiling.part, 1 if self.tiling.turns else self.tiling.staged
        return next(d for d in range(min(parts, least), parts + 1) if parts % d == 0)


def tiling_for(k: int, n: int, target: Target) -> Tiling:
    """What a call takes: on Hopper the weight resident about where it was measured to be faster (K = N = 512 on an H200: 232 µs, shared 257)."""
    if target.generation == "Hopper" and k <= RESIDENT_K and RESIDENT_N[0] < n <= RESIDENT_N[1]:
        return Tiling(columns_most=128, turns=3, letters=1)
    return Tiling()


def plan(problem: LinearNorm, target: Target) -> Plan:
    """The plan for `target`, with as many operand stages as fit beside the rest."""
    if problem.k < 1 or problem.n < 1 or problem.n % CHUNK:
        raise PlanError(f"K = {problem.k}, N = {problem.n}; N is a multiple of {CHUNK}")
    build = {"Hopper": resident if problem.tiling.turns else hopper, "Blackwell": blackwell}[target.generation]
    for stages in range(problem.tiling.stages_most, 1, -1):
        try:
            return build(problem, target, stages)
        except PlanError:
            if stages == 2:
                raise
    raise PlanError(f"no plan: stages_most is {problem.tiling.stages_most}, a ring of operands takes two")


def hopper(problem: LinearNorm, target: Target, stages: int) -> Plan:
    """Two consumer warpgroups of 64 rows each, accumulators in their registers."""
    roles = Roles(
        (
            Role("load", load, warps=1, registers=40),
            Role("multiply", forward_sm90.multiply, warps=4, members=2, registers=232),
        )
    )
    why = (
        "two consumers of 64 x 256: a 64 x 256 product reads the least shared memory per FLOP, and 128 accumulator registers leave room",
        "40 + 2 x 232 registers a thread of three warpgroups are the 64 K of an SM",
        f"{stages} stages: what fits beside the staged parts; they run on through the ends of tiles, so loads never stop for an epilogue",
    )
    return assemble(problem, target, roles, stages, consumer="multiply", why=why)


def blackwell(problem: LinearNorm, target: Target, stages: int) -> Plan:
    """One thread multiplies into tensor memory, four warps of epilogue drain it."""
    roles = Roles(
        (
            Role("epilogue", forward_sm100.epilogue, warps=4),
            Role("load", load, warps=1),
            Role("multiply", forward_sm100.multiply, warps=1),
        )
    )
    why = (
        "the epilogue comes first: warp w of a warpgroup reaches lanes 32 w of tensor memory and no others",
        f"{problem.tiling.accumulators} accumulators: the next tile is multiplied while this one is normalised",
        f"{stages} stages: what fits beside the staged parts",
    )
    return assemble(problem, target, roles, stages, consumer="epilogue", why=why)


def resident(problem: LinearNorm, target: Target, stages: int) -> Plan:
    """The weight's slice loaded once; consumers take row tiles in turn, so that one's epilogue runs under the others' products."""
    t, columns, cluster = problem.tiling, problem.columns, problem.cluster
    roles = Roles(
        (
            Role("load", load_resident, warps=1, registers=LOAD_REGISTERS[t.turns]),
            Role("multiply", forward_sm90.multiply_in_turn, 4, members=t.turns, registers=TURN_REGISTERS[t.turns]),
        )
    )
    rings = (
        Ring("rows", stages, "load", "multiply", ("x_tiles",), drain=drained(problem), in_turn=True),
        Ring("weights", problem.steps, "load", "multiply", ("weight_tiles",)),
        Ring("turns", t.turns, "multiply", "multiply", (), fill=Fill.WARPS, in_turn=True),
        mail_of(problem, "multiply"),
    )
    return Plan(
        operator="linear_norm",
        target=target,
        problem=problem,
        rows=t.turn_rows,
        cluster=cluster,
        roles=roles,
        memory=Memory(
            buffers=(
                Buffer("letters", (cluster, t.turn_rows), "float32", max(1, t.letters), each="multiply"),
                Buffer("weight_tiles", (columns, t.depth), problem.dtype, problem.steps, swizzled=True),
                Buffer("x_tiles", (t.turn_rows, t.depth), problem.dtype, stages, swizzled=True),
                Buffer("parts", (t.turn_rows, t.part), problem.dtype, problem.staged, each="multiply", swizzled=True),
            ),
            barriers=barriers(rings, roles),
            members=tuple((role.name, role.members) for role in roles),
        ),
        tensors=(
            *tiles(problem, t.turn_rows, t.turn_rows, multicasts(problem)),
            *options(problem, t.turn_rows, vector=PAIR),
        ),
        rings=rings,
        products=(Product("product", "multiply", "x_tiles", "weight_tiles", (t.turn_rows, columns, t.depth)),),
        stagings=(Staging("staging", "multiply", "parts", columns // t.part),),
        why=(
            f"cluster of {cluster}: a row of {problem.n} in slices of {columns}, at most {t.columns_most} a CTA",
            f"the slice of the weight, {problem.steps} steps of {columns} x {t.depth}, stays: only x streams, {t.turn_rows} rows at a time",
            f"{t.turns} consumers in turn: a tile's epilogue has the time of {t.turns - 1} tiles' products to hide in",
            f"{stages} stages of x: what fits beside the weight and the staged parts, {t.stages_most} at most",
        ),
    )


def drained(problem: LinearNorm) -> Drain:
    """By whom stages of x are released: where CTAs load for each other, by the warps of all of them."""
    return Drain.PEERS if multicasts(problem) else Drain.WARPS


def multicasts(problem: LinearNorm) -> bool:
    return problem.tiling.multicast and problem.cluster > 1


def tiles(problem: LinearNorm, height: int, rows: int, shared: bool) -> tuple[Tensor, ...]:
    """What TMA moves in every call: x by `height` rows, for all CTAs of the cluster where it is `shared`; y by the `rows` of one member."""
    t = problem.tiling
    return (
        Tensor("x", problem.dtype, ("m", problem.k), (height, t.depth), "x_tiles", shared=shared),
        Tensor("weight", problem.dtype, (problem.n, problem.k), (problem.columns, t.depth), "weight_tiles"),
        Tensor("y", problem.dtype, ("m", problem.n), (rows, t.part), "parts", output=True),
    )


def mail_of(problem: LinearNorm, consumer: str) -> Ring:
    """Row sums between the CTAs of a cluster, member to member."""
    stages = problem.tiling.letters if problem.cluster > 1 else 0
    return Ring("mail", stages, consumer, consumer, ("letters",), fill=Fill.MAIL, drain=Drain.PEERS, each=consumer)


def options(problem: LinearNorm, rows: int, vector: int) -> tuple[Tensor, ...]:
    """The tensors that only some calls have. A thread moves `vector` columns at once, as they lie in its part of the accumulator."""
    p, part = problem, problem.tiling.part
    columns = (("bias", p.bias_dtype), ("norm_weight", p.norm_weight_dtype), ("norm_bias", p.norm_bias_dtype))
    found = [Tensor(name, dtype, (p.n,), (part,), vector=vector) for name, dtype in columns if dtype]
    found += [Tensor("residual", p.dtype, ("m", p.n), (rows, part), vector=vector)] if p.residual else []
    found += [Tensor("z", p.dtype, ("m", p.n), (rows, part), "parts", output=True)] if p.return_z else []
    statistics = ("rstd", "mean") if p.centre else ("rstd",)
    return (*found, *(Tensor(name, "float32", ("m",), (rows,), output=True) for name in statistics if p.return_stats))


def assemble(
    problem: LinearNorm, target: Target, roles: Roles, stages: int, consumer: str, why: tuple[str, ...]
) -> Plan:
    """What both generations share: tensors, buffers, rings. `consumer` is the role that normalises and stores."""
    t, columns, cluster = problem.tiling, problem.columns, problem.cluster
    on_tensor_memory = consumer != "multiply"
    rows = t.rows // roles[consumer].members
    rings: tuple[Ring, ...] = (
        Ring(
            "operands", stages, "load", "multiply", ("x_tiles", "weight_tiles"),
            drain=Drain.MMA if on_tensor_memory else drained(problem),
        ),
        mail_of(problem, consumer),
    )  # fmt: skip
    if on_tensor_memory:
        rings += (Ring("accumulators", t.accumulators, "multiply", consumer, ("tmem",), fill=Fill.MMA),)
    return Plan(
        operator="linear_norm",
        target=target,
        problem=problem,
        rows=t.rows,
        cluster=cluster,
        roles=roles,
        memory=Memory(
            buffers=(
                Buffer("letters", (cluster, rows), "float32", max(1, t.letters), each=consumer),
                Buffer("x_tiles", (t.rows, t.depth), problem.dtype, stages, swizzled=True),
                Buffer("weight_tiles", (columns, t.depth), problem.dtype, stages, swizzled=True),
                Buffer("parts", (rows, t.part), problem.dtype, problem.staged, each=consumer, swizzled=True),
            ),
            barriers=barriers(rings, roles),
            tensor_memory=TensorMemory("tmem", columns, t.accumulators) if on_tensor_memory else None,
            members=tuple((role.name, role.members) for role in roles),
        ),
        tensors=(
            *tiles(problem, t.rows, rows, multicasts(problem) and not on_tensor_memory),
            *options(problem, rows, vector=CHUNK if on_tensor_memory else PAIR),
        ),
        rings=rings,
        products=(
            Product(
                "product", "multiply", "x_tiles", "weight_tiles",
                (t.rows // roles["multiply"].members, columns, t.depth), into="tmem" if on_tensor_memory else "",
            ),
        ),
        stagings=(Staging("staging", consumer, "parts", columns // t.part),),
        why=(f"cluster of {cluster}: a row of {problem.n} in slices of {columns}, at most {t.columns_most} a CTA", *why),
    )  # fmt: skip
