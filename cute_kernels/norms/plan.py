"""Plans of the norms alone: how a row is cut into threads and CTAs."""

from dataclasses import dataclass

from cute_kernels.norms.forward import normalise
from cute_kernels.plan import Buffer, Drain, Fill, Memory, Plan, Ring, Role, Roles, Target, Tensor, itemsize
from cute_kernels.plan.plan import barriers
from cute_kernels.plan.roles import WARP

# Elements of a row a thread holds, measured on the H200 with 65536 rows of bf16: 32 are best to 1024 columns (16 lose a quarter of the
# bandwidth: too few bytes in flight a thread), 64 from 2048 on (fewer threads to meet at the barrier).
ELEMENTS, ELEMENTS_LONG, LONG = 32, 64, 2048
THREADS = 128
THREADS_MOST = 512
# Columns of a row a CTA takes where a cluster can share it, and at most. With 16384, too few CTAs fit an SM to overlap one's barrier with
# another's loads: measured, 72 % of a copy's bandwidth where two CTAs of 8192 get 94 %.
ROW, ROW_MOST = 8192, 16384
LETTERS = 2


@dataclass(frozen=True)
class RmsNorm:
    """Compile-time facts of y[m, n] = x / rms(x) · (weight_offset + weight).

    weight_dtype  "" without a weight
    vector        elements a thread moves at once: as many as base pointers and row pitches are aligned to, 16 bytes at most
    row           columns one CTA takes; tests shrink it to get clusters out of short rows
    """

    n: int
    dtype: str
    weight_dtype: str = ""
    weight_offset: float = 0.0
    eps: float = 1e-6
    vector: int = 1
    row: int = ROW


def lanes_of(columns: int) -> int:
    """Threads that share a row: a power of two, so that they are part of a warp or whole warps."""
    lanes, elements = 1, ELEMENTS if columns < LONG else ELEMENTS_LONG
    while lanes * elements < columns and lanes < THREADS_MOST:
        lanes *= 2
    return lanes


def plan(problem: RmsNorm, target: Target) -> Plan:
    """Short rows: several a CTA, some lanes each. Long rows: a CTA each, then a cluster each."""
    n, vector = problem.n, problem.vector
    cluster = -(-n // problem.row)
    if cluster > target.cluster_most:
        cluster = -(-n // ROW_MOST)
    columns = -(-(-(-n // cluster)) // vector) * vector
    lanes = lanes_of(columns)
    threads = max(THREADS, lanes)
    rows = threads // lanes
    roles = Roles((Role("normalise", normalise, warps=threads // WARP),))
    rings = (
        Ring(
            "mail", LETTERS if cluster > 1 else 0, "normalise", "normalise", ("letters",),
            fill=Fill.MAIL, drain=Drain.PEERS, each="normalise",
        ),
    )  # fmt: skip
    tensors = [
        Tensor("x", problem.dtype, ("m", n), (rows, columns), vector=vector),
        Tensor("y", problem.dtype, ("m", n), (rows, columns), vector=vector, output=True),
    ]
    if problem.weight_dtype:
        tensors.insert(1, Tensor("weight", problem.weight_dtype, (n,), (columns,), vector=vector))
    return Plan(
        operator="rms_norm",
        target=target,
        problem=problem,
        rows=rows,
        cluster=cluster,
        roles=roles,
        memory=Memory(
            buffers=(
                Buffer("letters", (cluster, rows), "float32", LETTERS, each="normalise"),
                Buffer("sums", (rows, max(1, lanes // WARP)), "float32"),
            ),
            barriers=barriers(rings, roles),
            members=(("normalise", 1),),
        ),
        tensors=tuple(tensors),
        rings=rings,
        persistent=False,
        why=(
            f"{lanes} threads a row: {-(-columns // lanes)} elements each, {vector * itemsize(problem.dtype)} bytes a load",
            f"a CTA a tile, of {rows} row(s): the hardware overlaps one CTA's loads with another's stores",
            f"cluster of {cluster}: a CTA takes {problem.row} columns where a cluster can share the row",
        ),
    )
