"""Every kernel for every architecture: it compiles, spills nothing, keeps its register budget, and holds the instructions meant."""

import pathlib
import re
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

from cute_kernels import device
from cute_kernels.device.resources import Resources, resources
from cute_kernels.linear_norm.plan import LinearNorm
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, SM100A, Plan
from cute_kernels.plan.roles import WARP

ALL: dict[str, Any] = {"centre": True, "residual": True, "return_sum": True, "return_stats": True}
ALL_GRADIENTS: dict[str, Any] = {"centre": True, "residual": True, "dsum": True, "dweight": True, "dbias": True}
PROBLEMS = (
    *(
        LinearNorm(k, n, dtype)
        for k, n, dtype in [(512, 512, "bfloat16"), (200, 64, "float16"), (64, 2048, "bfloat16")]
    ),
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
INSTRUCTIONS = {
    (
        "linear_norm",
        "sm_90a",
    ): r"wgmma\.mma_async|cp\.async\.bulk\.tensor\.2d\.shared|cp\.async\.bulk\.tensor\.2d\.global",
    (
        "linear_norm",
        "sm_100a",
    ): r"tcgen05\.mma|tcgen05\.ld|tcgen05\.commit|tcgen05\.dealloc|cp\.async\.bulk\.tensor\.2d\.global",
}


@dataclass(frozen=True)
class Compiled:
    """A plan and what its compilation left."""

    plan: Plan
    used: Resources
    ptx: str


def plan_of(problem: LinearNorm | Norm | NormBackward, arch: str) -> Plan:
    target = {"sm_90a": SM90A, "sm_100a": SM100A}[arch]
    return plan_linear_norm(problem, target) if isinstance(problem, LinearNorm) else plan_norm(problem, target)


@pytest.fixture(scope="module", params=[(p, a) for p in PROBLEMS for a in ("sm_90a", "sm_100a")], ids=str)
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
    wanted = INSTRUCTIONS.get((compiled.plan.operator, compiled.plan.target.arch), "")
    for instruction in filter(None, wanted.split("|")):
        assert re.search(instruction, compiled.ptx), instruction


def test_letters_cross_ctas_only_in_clusters(compiled: Compiled) -> None:
    assert ("st.async" in compiled.ptx) == (compiled.plan.cluster > 1)


def test_every_barrier_is_initialised_once_with_its_count(compiled: Compiled) -> None:
    assert len(re.findall(r"mbarrier\.init", compiled.ptx)) == compiled.plan.memory.barriers
