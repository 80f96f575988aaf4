"""Rings on the device, once round and one stage on: which phase each wait is for, what is fenced behind it, what is announced.

The kernels' own programs keep phases in registers; in a program without loops they are constants, to be read in the PTX.
"""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

from cute_kernels import device
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM90A, SM100A, Drain, Fill, Plan, Ring, Role, Target
from tests.device.ptx import INSTRUCTIONS, constant
from tests.simulator.kernels import with_programs


def once_round(ctx: Any) -> None:
    """Fill each ring of the role, then drain each, waits only: all stages, and the first again."""
    for ring in ctx.plan.rings:
        for role, verb in ((ring.filled_by, "acquire"), (ring.drained_by, "wait")):
            if role == ctx.role.name:
                mine = getattr(ctx, ring.name)
                slot = mine.start()
                for _ in range(ring.stages + 1):
                    getattr(mine, verb)(slot)
                    slot = mine.advance(slot)


def waits(plan: Plan, role: Role) -> list[tuple[int, bool, int]]:
    """What `once_round` must wait for: phase, whether the tensor core's fence follows, bytes announced."""
    found = []
    for ring in plan.rings:
        laps = ring.stages + 1
        if role.name == ring.filled_by:
            announced = 0 if ring.fill is Fill.MMA else plan.stage_bytes(ring)
            found += [(int(i < ring.stages), ring.fill is Fill.MMA, announced) for i in range(laps)]
        if role.name == ring.drained_by:
            found += [(int(i == ring.stages), on_tensor_core(ring), 0) for i in range(laps)]
    return found


def on_tensor_core(ring: Ring) -> bool:
    return ring.fill is Fill.MMA or ring.drain is Drain.MMA


@pytest.mark.parametrize("on", [SM90A, SM100A], ids=lambda target: target.arch)
def test_every_wait_is_for_its_phase(on: Target, tmp_path: Path) -> None:
    kernel = plan(LinearNorm(512, 512, "bfloat16"), on)
    device.compile(with_programs(kernel, **{role.name: once_round for role in kernel.roles}), keep=str(tmp_path))
    (ptx,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    found = []
    for piece in re.split(r"mbarrier\.try_wait\.parity\.shared\.b64 \w+, \[%\w+\], ", ptx)[1:]:
        announced = re.search(r"expect_tx\.shared\.b64 %\w+, \[\S+\], (\S+);", piece)
        fenced = re.search(INSTRUCTIONS["fence after"], piece) is not None
        found.append((constant(ptx, piece.partition(",")[0]), fenced, constant(ptx, announced[1]) if announced else 0))
    assert found == [wait for role in kernel.roles for wait in waits(kernel, role)]
