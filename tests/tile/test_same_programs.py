"""One program, two back ends: every registered role program is traced for the GPU and run by the simulator as the same function.

The DSL rewrites the code of what it traces, so it gets that code in a function of its own; the original must stay as it was written.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

import cutlass.cute as cute

import cute_kernels
from cute_kernels import device, tile
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.device import compiler as _compiler  # noqa: F401 - decorates its own functions before a test listens
from cute_kernels.device import context as device_context
from cute_kernels.linear_norm.plan import Tiling
from cute_kernels.simulator.context import Context
from tests.simulator.kernels import linear_norm

Program = Callable[..., Any]
ARCHITECTURES = ("sm_90a", "sm_100a")
SHAPES = {
    "rms_norm": "3x20000",
    "layer_norm": "3x10000",
    "mhc_post": "3x1280x4",
    "mhc_pre_big_fuse": "3x1280x2x4",
    "mhc_pre_big_fuse_with_prenorm": "3x1280x1x4",
    "linear_norm": "100x64x512",
}  # over a cluster, so that the mail is in use


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The functions that the simulator's contexts run: what their `bind` gives back."""
    seen: list[Program] = []

    def bind(context: Context, program: Program) -> Program:
        seen.append(honest(context, program))
        return seen[-1]

    honest = Context.bind
    monkeypatch.setattr(Context, "bind", bind)
    return seen


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[CodeType]:
    """The code, as it is before the DSL rewrites it, of the functions that cute.jit is given and that are then called."""
    seen: list[CodeType] = []

    def jit(function: Program) -> Program:
        code, made = function.__code__, honest(function)

        def call(*arguments: Any) -> Any:
            seen.append(code)
            return made(*arguments)

        return call

    honest = cute.jit
    monkeypatch.setattr(cute, "jit", jit)
    monkeypatch.setattr(device_context, "_TRACED", {})
    return seen


def test_both_back_ends_run_the_same_functions(
    simulated: list[Program], traced: list[CodeType], figure: Callable[[str], None]
) -> None:
    for operator in OPERATORS.values():
        operator.module("plan")  # registers its programs
    plans, written = [], {program: program.__code__ for program in tile.PROGRAMS.values()}
    for operator in OPERATORS.values():
        case = operator.case(SHAPES[operator.name])
        for arch in ARCHITECTURES:
            arguments = operator.module("cases").inputs(case)
            with cute_kernels.simulate(arch) as simulation:
                leaves = {name: v.requires_grad_() if torch.is_tensor(v) else v for name, v in arguments.items()}
                out = operator.call(**leaves)
                outs = out if isinstance(out, tuple) else (out,)
                torch.autograd.backward(outs, [torch.ones_like(y) for y in outs])
            plans += simulation.plans
    other = linear_norm(m=100, k=64, n=256, tiling=Tiling())  # the shape above takes another schedule
    other.run()
    with cute_kernels.simulate() as simulation:  # on Hopper alone
        cute_kernels.mhc_project(torch.ones(3, 2, 64).bfloat16(), torch.ones(8, 128), 2)
    plans += simulation.plans
    for plan in [*plans, other.plan]:
        device.compile(plan)
    programs = {name: program for name, program in tile.PROGRAMS.items() if name.startswith("cute_kernels.")}
    twins = [
        name
        for name, program in programs.items()
        if not (any(program is one for one in simulated) and any(written[program] is one for one in traced))
    ]
    figure("\n  ".join([f"{len(programs)} role programs, twins: {len(twins)}", *sorted(programs)]))
    assert not twins
    assert {id(one) for one in simulated} == {id(program) for program in programs.values()}
    assert {id(one) for one in traced} == {id(written[program]) for program in programs.values()}
    assert all(program.__code__ is code for program, code in written.items())


def test_what_the_dsl_traces_has_the_code_of_the_program() -> None:
    for program in tile.PROGRAMS.values():
        own = device_context.for_tracing(program)
        assert own is not program
        assert own.__code__ is program.__code__
