"""Every kernel for every architecture: it compiles, spills nothing, keeps its register budget, and holds the instructions meant,
those that synchronise in the order meant."""

import itertools
import pathlib
import re
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

from cute_kernels import device
from cute_kernels.device.resources import Resources, resources
from cute_kernels.hyper_connection.plan import Parts, Post, PostBackward, Pre, PreBackward, Project
from cute_kernels.hyper_connection.plan import plan as plan_streams
from cute_kernels.linear_norm.plan import LinearNorm
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, SM100A, Plan, itemsize
from cute_kernels.plan.roles import WARP
from tests.device.ptx import barrier_counts, before, constant, order

ALL: dict[str, Any] = {"centre": True, "residual": True, "return_sum": True, "return_stats": True}
ALL_GRADIENTS: dict[str, Any] = {"centre": True, "residual": True, "dsum": True, "dweight": True, "dbias": True}
PROBLEMS = (
    *(
        LinearNorm(k, n, dtype)
        for k, n, dtype in [(512, 512, "bfloat16"), (200, 64, "float16"), (64, 2048, "bfloat16")]
    ),
    Post(4, 4096, vector=8),
    Post(4, 1003, "float16"),
    Post(2, 64, vector=8),
    Post(8, 7168, vector=8),
    Pre(4, 4096, vector=8),
    Pre(4, 7168, splits=16, vector=8),
    Pre(4, 1003, "float16", splits=2),
    Pre(4, 1280, splits=66, repeats=1, vector=8),
    Pre(2, 8, splits=8, vector=8),
    Pre(8, 7168, splits=4, vector=8),
    Pre(4, 4096, normed=True, vector=8, elements=8),
    Pre(4, 7168, "float16", normed=True, vector=8, elements=8),
    Pre(2, 1003, normed=True, elements=8),
    Pre(4, 32768, normed=True, vector=8, elements=8),
    Pre(8, 16392, normed=True, vector=8, elements=8),
    PostBackward(4, 4096, vector=8),
    PostBackward(4, 1003, "float16", df=False),
    PostBackward(4, 7168, dtables=False, vector=8),
    PostBackward(8, 7168, vector=8),
    PreBackward(4, 4096, vector=8),
    PreBackward(4, 7168, splits=16, vector=8),
    PreBackward(2, 1003, dx=False),
    PreBackward(8, 72, vector=8),
    Parts(28, 20),
    Parts(2, 72),
    Norm(512, "bfloat16", "bfloat16", vector=8),
    Norm(1001, "float16", "float32"),
    Norm(4096, "bfloat16", vector=8),
    Norm(131072, "float32", "float32", vector=4),
    Norm(1000, "bfloat16", "float32", "float32", 0.5, vector=8, **ALL),
    Norm(8192, "bfloat16", "bfloat16", "bfloat16", vector=8, **ALL),
    Norm(131072, "float32", "float32", "float32", vector=4, **ALL),
    NormBackward(512, "bfloat16", "bfloat16", vector=8, dweight=True),
    NormBackward(1001, "float16", "float32", 1.0, dx=False, dweight=True),
    NormBackward(4096, "bfloat16", vector=8, centre=True),
    NormBackward(8192, "bfloat16", "bfloat16", vector=8, **ALL_GRADIENTS),
    NormBackward(131072, "float32", "float32", 0.5, vector=4, **ALL_GRADIENTS),
)
STREAMS = (Post, Pre, PostBackward, PreBackward, Parts, Project)
ON_HOPPER = (Project(4, 7168, splits=8), Project(2, 72, "float16"))
KERNELS = [(problem, arch) for problem in PROBLEMS for arch in ("sm_90a", "sm_100a")]
KERNELS += [(problem, "sm_90a") for problem in ON_HOPPER]
ROWS_BY_THREADS = [kernel for kernel in KERNELS if not isinstance(kernel[0], LinearNorm | Parts | Project)]
STAGED = [kernel for kernel in KERNELS if isinstance(kernel[0], LinearNorm)]
ON_TENSOR_MEMORY = [kernel for kernel in STAGED if kernel[1] == "sm_100a"]

NORM = (r"rsqrt\.approx\.f32", r"ld\.global\.L1::no_allocate", r"st\.global\.L1::no_allocate")
INSTRUCTIONS = {
    ("norm", "sm_90a"): NORM,
    ("norm", "sm_100a"): NORM,
    ("norm_backward", "sm_90a"): NORM[1:],
    ("norm_backward", "sm_100a"): NORM[1:],
    **{
        (f"mhc_{of}_backward", arch): (NORM[1], r"st\.global")
        for of in ("post", "pre")
        for arch in ("sm_90a", "sm_100a")
    },
    ("mhc_project", "sm_90a"): (r"wgmma\.mma_async", r"cp\.async\.bulk\.tensor\.2d\.shared", r"ld\.shared\.v4"),
    **{("mhc_add_parts", arch): (r"st\.global",) for arch in ("sm_90a", "sm_100a")},
    **{("mhc_post", arch): NORM[1:] for arch in ("sm_90a", "sm_100a")},
    **{("mhc_pre_big_fuse_with_prenorm", arch): (*NORM, r"ex2\.approx") for arch in ("sm_90a", "sm_100a")},
    **{("mhc_pre_big_fuse", arch): (*NORM, r"ex2\.approx", r"rcp\.approx") for arch in ("sm_90a", "sm_100a")},
    ("linear_norm", "sm_90a"): (
        r"rsqrt\.approx\.f32",
        r"wgmma\.fence",
        r"wgmma\.mma_async",
        r"wgmma\.commit_group",
        r"wgmma\.wait_group\.sync\.aligned\s+0",
        r"cp\.async\.bulk\.tensor\.2d\.shared",
        r"cp\.async\.bulk\.tensor\.2d\.global",
    ),
    ("linear_norm", "sm_100a"): (
        r"rsqrt\.approx\.f32",
        r"tcgen05\.mma",
        r"tcgen05\.ld",
        r"tcgen05\.commit",
        r"cp\.async\.bulk\.tensor\.2d\.shared",
        r"cp\.async\.bulk\.tensor\.2d\.global",
    ),
}


@dataclass(frozen=True)
class Compiled:
    """A plan and what its compilation left."""

    plan: Plan
    used: Resources
    ptx: str


def plan_of(problem: Any, arch: str) -> Plan:
    target = {"sm_90a": SM90A, "sm_100a": SM100A}[arch]
    if isinstance(problem, LinearNorm):
        return plan_linear_norm(problem, target)
    return plan_streams(problem, target) if isinstance(problem, STREAMS) else plan_norm(problem, target)


@pytest.fixture(scope="module", params=KERNELS, ids=str)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    plan, folder = plan_of(*request.param), tmp_path_factory.mktemp("kept")
    device.compile(plan, keep=str(folder))
    (cubin,), (ptx,) = folder.glob("*.cubin"), folder.glob("*.ptx")
    return Compiled(plan, resources(pathlib.Path(cubin)), pathlib.Path(ptx).read_text())


def test_nothing_spills(compiled: Compiled) -> None:
    assert (compiled.used.stack, compiled.used.local) == (0, 0)


def test_registers_fit_the_launch(compiled: Compiled) -> None:
    assert compiled.used.registers * compiled.plan.roles.threads <= compiled.plan.target.registers


def test_register_budgets_are_taken(compiled: Compiled) -> None:
    taken = {int(n) for n in re.findall(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32\s+(\d+)", compiled.ptx)}
    assert taken == {role.registers for role in compiled.plan.roles if role.registers}


def test_thread_count_is_the_plans(compiled: Compiled) -> None:
    (threads,) = re.findall(r"\.reqntid (\d+)", compiled.ptx)
    assert int(threads) == compiled.plan.roles.warps * WARP


def test_instructions_meant_are_there(compiled: Compiled) -> None:
    for instruction in INSTRUCTIONS[compiled.plan.operator, compiled.plan.target.arch]:
        assert re.search(instruction, compiled.ptx), instruction


@pytest.mark.parametrize("compiled", ROWS_BY_THREADS, ids=str, indirect=True)
def test_rows_are_loaded_in_the_plans_vectors(compiled: Compiled) -> None:
    x = compiled.plan.tensors[0]
    loads = re.findall(r"ld\.global\.L1::no_allocate(?:\.v(\d))?\.b(\d+)", compiled.ptx)
    assert {int(count or 1) * int(bits) // 8 for count, bits in loads} == {x.vector * itemsize(x.dtype)}


# Synchronisation. A wrong fence, count or wait compiles as well, and a test on a GPU may miss it.


def test_every_barrier_counts_the_arrivals_of_the_plan(compiled: Compiled) -> None:
    plan, wanted = compiled.plan, []
    for ring in plan.rings:
        counts = [plan.full_arrivals(ring)] * ring.stages + [plan.empty_arrivals(ring)] * ring.stages
        wanted += counts * (plan.roles[ring.each].members if ring.each else 1)
    assert len(wanted) == plan.memory.barriers
    assert barrier_counts(compiled.ptx) == wanted


def test_no_role_runs_before_the_cluster_has_set_its_barriers(compiled: Compiled) -> None:
    prologue = ("initialise", "initialisation fence", "cluster arrive", "cluster wait")
    events = [name for name, _ in itertools.groupby(order(compiled.ptx, *prologue, "wait"))]
    assert events == ([*prologue, "wait"] if compiled.plan.memory.barriers else [])


def test_letters_cross_ctas_only_in_clusters(compiled: Compiled) -> None:
    assert bool(order(compiled.ptx, "letter")) == (compiled.plan.cluster > 1)


def test_letters_are_released_behind_a_proxy_fence_of_every_lane(compiled: Compiled) -> None:
    events = order(compiled.ptx, "letter", "proxy fence", "meet warp", "arrive at peers")
    groups = [name for name, _ in itertools.groupby(events)]
    assert groups.count("arrive at peers") == groups.count("letter")
    assert all(two == ["proxy fence", "meet warp"] for two in before(events, "arrive at peers", 2))


@pytest.mark.parametrize("compiled", STAGED, ids=str, indirect=True)
def test_parts_are_stored_behind_a_proxy_fence_and_drained(compiled: Compiled) -> None:
    (staging,) = compiled.plan.stagings
    free = f"await stores but {compiled.plan.memory[staging.buffer].stages - 1}"
    events = order(compiled.ptx, *{free, "await stores but 0"}, "meet", "proxy fence", "store", "commit store")
    part = [free, "meet", "proxy fence", "meet", "store", "commit store"]
    assert events[events.index(free) :] == [*part * staging.parts, "await stores but 0"]


@pytest.mark.parametrize("compiled", ON_TENSOR_MEMORY, ids=str, indirect=True)
def test_tensor_memory_is_taken_read_and_given_back(compiled: Compiled) -> None:
    memory, ptx = compiled.plan.memory.accumulators, compiled.ptx
    life = order(ptx, "allocate", "permit others", "cluster arrive", "product", "free")
    assert [name for name, _ in itertools.groupby(life)] == [
        "allocate",
        "permit others",
        "cluster arrive",
        "product",
        "free",
    ]
    assert life.count("allocate") == life.count("free") == 1
    assert order(ptx, "wait", "product", "commit product", "fence after", "free")[-3:] == [
        "wait",
        "fence after",
        "free",
    ]
    allocated, freed = (
        re.search(r"tcgen05\.alloc\S+\s+\S+ (\S+);", ptx),
        re.search(r"tcgen05\.dealloc\S+\s+\S+ (\S+);", ptx),
    )
    assert allocated is not None
    assert freed is not None
    assert constant(ptx, allocated[1]) == constant(ptx, freed[1]) == memory.allocated


@pytest.mark.parametrize("compiled", ON_TENSOR_MEMORY, ids=str, indirect=True)
def test_accumulators_are_released_after_their_reads(compiled: Compiled) -> None:
    reads = order(compiled.ptx, "read accumulator", "await reads")
    assert reads == ["read accumulator", "await reads"] * (len(reads) // 2)
    assert reads
    events = order(compiled.ptx, "await reads", "fence before", "meet warp", "arrive")
    assert before(events, "arrive", 3) == [["await reads", "fence before", "meet warp"]]
