"""Every registered role program is what the simulator runs: the very function, no copy and no rewrite."""

from collections.abc import Callable
from typing import Any

import pytest

from cute_kernels import tile
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.plan import SM90A, SM100A

for operator in OPERATORS.values():
    operator.module("plan")
PROGRAMS = {name: program for name, program in tile.PROGRAMS.items() if name.startswith("cute_kernels.")}

PROBLEMS: dict[str, Callable[[Any], list[Any]]] = {
    "norms": lambda plan: [plan.Norm(64, "float32"), plan.NormBackward(64, "float32")],
    "hyper_connection": lambda plan: [
        *(problem(4, 64) for problem in (plan.Post, plan.Pre, plan.PostBackward, plan.PreBackward)),
        plan.Pre(4, 64, normed=True),
        plan.Parts(2, 20),
    ],
    "linear_norm": lambda plan: [plan.LinearNorm(64, 512, "float16")],
}


class Recorder:
    """A context that notes which function it is asked to bind."""

    def bind(self, program: Any) -> Any:
        self.bound = program
        return lambda ctx, *rest: ("ran", ctx, rest)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_decorator_hands_over_the_function_it_was_given(name: str) -> None:
    module, _, qualname = name.rpartition(".")
    recorder = Recorder()
    decorated = getattr(__import__(module, fromlist=[qualname]), qualname)
    assert decorated(recorder, 1, 2) == ("ran", recorder, (1, 2))
    assert recorder.bound is PROGRAMS[name] is decorated.__wrapped__


@pytest.mark.parametrize("target", [SM90A, SM100A], ids=lambda target: target.arch)
def test_every_role_of_every_plan_is_a_registered_program(target: Any) -> None:
    for operator in OPERATORS.values():
        module = operator.module("plan")
        for problem in PROBLEMS[operator.folder](module):
            for role in module.plan(problem, target).roles:
                assert role.program.__wrapped__ in PROGRAMS.values()
