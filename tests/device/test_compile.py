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
from cute_kernels.device.product_sm100 import LOADED
from cute_kernels.device.resources import Resources, resources
from cute_kernels.hyper_connection.plan import Parts, Post, PostBackward, Pre, PreBackward, Project
from cute_kernels.hyper_connection.plan import plan as plan_streams
from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, SM100A, Plan, itemsize
from cute_kernels.plan.roles import WARP
from tests.device.ptx import barrier_counts, before, constant, meetings, order

ALL: dict[str, Any] = {"centre": True, "residual": True, "return_sum": True, "return_stats": True}
ALL_GRADIENTS: dict[str, Any] = {"centre": True, "residual": True, "dsum": True, "dweight": True, "dbias": True}
AFFINE: dict[str, Any] = {"norm_weight_dtype": "float32", "norm_bias_dtype": "bfloat16"}
ALL_OPTIONS: dict[str, Any] = {
    "bias_dtype": "bfloat16", "residual": True, "return_z": True, "return_stats": True, **AFFINE,
}  # fmt: skip
PROBLEMS = (
    *(
        LinearNorm(k, n, dtype)
        for k, n, dtype in [(512, 512, "bfloat16"), (200, 64, "float16"), (64, 2048, "bfloat16")]
    ),
    LinearNorm(512, 512, "bfloat16", "layer", **AFFINE),
    LinearNorm(64, 3000, "float16", "layer", return_stats=True),
    LinearNorm(64, 8, "bfloat16", return_z=True),
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
    Norm(40000, "float32", "float32", "float32", centre=True, residual=True, vector=4),
    NormBackward(27, "float32", "float32", dweight=True),
    NormBackward(32, "bfloat16", "bfloat16", vector=8, dweight=True),
    NormBackward(28000, "bfloat16", "bfloat16", vector=8, **ALL_GRADIENTS),
    NormBackward(512, "bfloat16", "bfloat16", vector=8, dweight=True),
    NormBackward(1001, "float16", "float32", 1.0, dx=False, dweight=True),
    NormBackward(4096, "bfloat16", vector=8, centre=True),
    NormBackward(8192, "bfloat16", "bfloat16", vector=8, **ALL_GRADIENTS),
    NormBackward(131072, "float32", "float32", 0.5, vector=4, **ALL_GRADIENTS),
)
STREAMS = (Post, Pre, PostBackward, PreBackward, Parts, Project)
# On Hopper alone: consumers in turn are its schedule, and on Blackwell the options together spill (see linear_norm's README).
HOPPER = (
    Project(4, 7168, splits=8),
    Project(2, 72, "float16"),
    LinearNorm(512, 512, "bfloat16", "layer", **ALL_OPTIONS),
    LinearNorm(512, 520, "float16", "layer", **ALL_OPTIONS | {"bias_dtype": "float32"}),
    LinearNorm(512, 512, "bfloat16", tiling=Tiling(turns=3, columns_most=128)),
    LinearNorm(512, 512, "bfloat16", "layer", **ALL_OPTIONS, tiling=Tiling(turns=3, columns_most=128)),
    LinearNorm(512, 256, "bfloat16", "layer", **AFFINE, tiling=Tiling(turns=4, columns_most=128)),
    LinearNorm(256, 512, "bfloat16", "layer", **AFFINE, tiling=Tiling(turns=2)),
    LinearNorm(1024, 1024, "bfloat16", tiling=Tiling(multicast=True, staged=1)),
    LinearNorm(512, 512, "bfloat16", tiling=Tiling(turns=3, columns_most=128, multicast=True)),
)
KERNELS = [(problem, arch) for problem in PROBLEMS for arch in ("sm_90a", "sm_100a")]
KERNELS += [(problem, "sm_90a") for problem in HOPPER]
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


def test_threads_meet_in_the_numbers_of_the_plan(compiled: Compiled) -> None:
    """On a barrier of two counts the hardware stops with an illegal instruction."""
    wanted: dict[int, int] = {}
    for role in compiled.plan.roles:
        for member in range(role.members):
            first = compiled.plan.roles.first_barrier(role.name) + member * (1 + role.teams)
            wanted[first] = role.threads
            wanted |= {first + 1 + team: role.threads // role.teams for team in range(role.teams)}
    for barrier, count in meetings(compiled.ptx):
        assert count in wanted.values() if barrier is None else count == wanted[barrier]


def test_no_role_runs_before_the_cluster_has_set_its_barriers(compiled: Compiled) -> None:
    prologue = ("initialise", "initialisation fence", "cluster arrive", "cluster wait")
    events = [name for name, _ in itertools.groupby(order(compiled.ptx, *prologue, "wait"))]
    assert events == ([*prologue, "wait"] if compiled.plan.memory.barriers else [])


@pytest.mark.parametrize("compiled", STAGED, ids=str, indirect=True)
def test_what_is_shared_goes_to_every_cta_of_the_cluster(compiled: Compiled) -> None:
    masks = re.findall(r"multicast::cluster\S* \[[^\]]+\], \[[^\]]+\], \[[^\]]+\], (%rs\d+)", compiled.ptx)
    shared = any(tensor.shared for tensor in compiled.plan.tensors)
    assert bool(masks) == shared
    found = {int(value) for mask in masks for value in re.findall(rf"mov\.b16 \t?{mask}, (\d+);", compiled.ptx)}
    assert found == ({(1 << compiled.plan.cluster) - 1} if shared else set())


def test_letters_cross_ctas_only_in_clusters(compiled: Compiled) -> None:
    assert bool(order(compiled.ptx, "letter")) == (compiled.plan.cluster > 1)


def test_letters_are_released_behind_a_proxy_fence_of_every_lane(compiled: Compiled) -> None:
    events = order(compiled.ptx, "letter", "proxy fence", "meet warp", "arrive at peers")
    events = events[events.index("letter") if "letter" in events else 0 :]  # before them, shared stages are released
    rows_a_thread = 2 if compiled.plan.products and compiled.plan.target.generation == "Hopper" else 1
    letters = events.count("letter") // (compiled.plan.cluster * rows_a_thread)
    assert events.count("arrive at peers") == letters
    assert all(two == ["proxy fence", "meet warp"] for two in before(events, "arrive at peers", 2))


@pytest.mark.parametrize("compiled", STAGED, ids=str, indirect=True)
def test_parts_are_stored_behind_a_proxy_fence_and_drained(compiled: Compiled) -> None:
    (staging,) = compiled.plan.stagings
    free = f"await stores but {compiled.plan.memory[staging.buffer].stages - 1}"
    names = {free, "await stores but 0", "meet", "meet warp", "proxy fence", "store", "commit store"}
    events = without_letters(order(compiled.ptx, *names))
    part = [free, "meet", "proxy fence", "meet", "store", "commit store"]
    stored = staging.parts * sum(tensor.buffer == staging.buffer for tensor in compiled.plan.tensors)
    assert events[events.index(free) :] == [*part * stored, "await stores but 0"]


def without_letters(events: list[str]) -> list[str]:
    """Without the fences and meetings of warps that letters are released behind."""
    warps = [i for i, name in enumerate(events) if name == "meet warp"]
    dropped = {*warps, *(i - 1 for i in warps if events[i - 1] == "proxy fence")}
    return [name for i, name in enumerate(events) if i not in dropped]


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
    groups = [(name, len(list(same))) for name, same in itertools.groupby(reads)]
    part = compiled.plan.memory["parts"].shape[1]
    assert groups == [("read accumulator", part // LOADED), ("await reads", 1)] * (len(groups) // 2)
    assert groups
    events = order(compiled.ptx, "await reads", "fence before", "meet warp", "arrive")
    assert before(events, "arrive", 3) == [["await reads", "fence before", "meet warp"]]
