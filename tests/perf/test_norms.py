"""What the benchmark of the norms times is what it says: right, and the same computation for every contender."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.norms import cases, reference
from perf import norms, rule


@pytest.mark.parametrize("name", norms.CASES)
def test_contenders_compute_the_same(name: str) -> None:
    case = replace(norms.CASES[name][0], m=40, n=64)
    arguments, operator = cases.inputs(case), getattr(ck, name)
    with ck.simulate():
        assert "yardstick" in rule.checked(operator, reference, arguments)
        assert "yardstick" in rule.checked_gradients(operator, reference, arguments)
        y, saved = operator(**arguments), norms.saved(name, arguments)
        ours, formula = norms.ours(**saved), norms.formula(**saved)
    torch.testing.assert_close(getattr(reference, f"{name}_pytorch")(**arguments), y, rtol=2e-2, atol=2e-2)
    for one, other in zip((g for g in ours if g is not None), formula, strict=True):
        torch.testing.assert_close(one.to(other.dtype), other, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("name", norms.CASES)
def test_no_figure_where_a_row_in_the_middle_is_not_written(name: str) -> None:
    arguments = cases.inputs(cases.Case(2 * rule.ROWS + 1, 4, "float32", "float32"))

    def forgetful(**given: Any) -> torch.Tensor:
        y, whole = torch.empty_like(given["x"]), getattr(reference, f"{name}_yardstick")(**given)
        y[: rule.ROWS], y[rule.ROWS + 1 :] = whole[: rule.ROWS], whole[rule.ROWS + 1 :]
        return y

    forgetful.__name__ = name
    with pytest.raises(SystemExit, match="has NaN or Inf; no figure is printed"):
        rule.checked(forgetful, reference, arguments)


@pytest.mark.parametrize("name", norms.CASES)
def test_no_figure_where_the_rule_is_broken(name: str) -> None:
    arguments = cases.inputs(cases.Case(8, 32, "float32", "float32"))

    def wrong(x: torch.Tensor, weight: torch.Tensor, weight_offset: float) -> torch.Tensor:
        return 1.01 * getattr(reference, name)(x, weight).float()

    wrong.__name__ = name
    for check in (rule.checked, rule.checked_gradients):
        with pytest.raises(SystemExit, match="is WRONG: .*; no figure is printed"):
            check(wrong, reference, arguments)
