"""What the benchmark of hyper-connections times is what it says: judged on tokens at both ends, refused where it is wrong."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.hyper_connection import cases
from perf import hyper_connection as perf


@pytest.mark.parametrize("name", cases.SPEED)
def test_what_is_timed_is_judged_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "TOKENS", 3)
    arguments = cases.inputs(replace(cases.SPEED[name][-1], m=7, h=64))
    with ck.simulate():
        assert perf.checked(OPERATORS[name], arguments) == "right"
        part = perf.of_tokens(arguments, slice(4, 7))
        whole, some = (perf.in_tuple(OPERATORS[name].call(**given)) for given in (arguments, part))
    assert all(torch.equal(one[4:7], other) for one, other in zip(whole, some, strict=True))


@pytest.mark.parametrize(("change", "said"), [(torch.nan, "has NaN or Inf"), (1.05, "is WRONG")])
def test_no_figure_for_a_wrong_result(change: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, honest = OPERATORS["mhc_post"], Operator.call

    def spoiled(self: Operator, **arguments: Any) -> torch.Tensor:
        return honest(self, **arguments) * change

    monkeypatch.setattr(Operator, "call", spoiled)
    with ck.simulate(), pytest.raises(SystemExit, match=f"mhc_post {said}.*no figure is printed"):
        perf.checked(operator, cases.inputs(cases.Post(5, 64)))
