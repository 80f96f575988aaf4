"""The correctness rule: what it lets pass, and what it must not."""

import pytest
import torch

from cute_kernels.runtime.accuracy import measure, ulp

HALF = torch.bfloat16


@pytest.fixture
def reference() -> torch.Tensor:
    return torch.randn(40, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_yardstick_passes(reference: torch.Tensor) -> None:
    found = measure(reference.to(HALF), reference, reference.to(HALF))
    assert found.right
    assert found.error == found.yardstick > 0


def test_twice_the_rounding_error_fails(reference: torch.Tensor) -> None:
    rounded = reference.to(HALF)
    worse = (reference + 2.5 * (rounded.double() - reference)).float()
    assert not measure(worse, reference, rounded.float()).right


def test_one_wrong_element_in_many_fails(reference: torch.Tensor) -> None:
    out = reference.float()
    out[3, 4] += 1e-5
    found = measure(out, reference, reference.float())
    assert found.worst > 1
    assert not found.right


@pytest.mark.parametrize("hole", [float("nan"), float("inf")])
def test_an_element_nobody_wrote_fails(reference: torch.Tensor, hole: float) -> None:
    out = reference.float()
    out[39, 49] = hole
    found = measure(out, reference, reference.float())
    assert not found.complete
    assert not found.right
    assert "NaN or Inf" in str(found)


def test_where_the_yardstick_overflows_nothing_is_asked() -> None:
    reference = torch.tensor([1.0, 1e6], dtype=torch.float64)
    yardstick = reference.half()
    assert yardstick[1].isinf()
    assert measure(torch.tensor([1.0, float("inf")]).half(), reference, yardstick).right


def test_a_reference_of_zeros_is_judged_by_elements_alone() -> None:
    reference = torch.zeros(5, dtype=torch.float64)
    assert measure(torch.zeros(5), reference, torch.zeros(5)).right
    assert not measure(torch.full((5,), 1e-6), reference, torch.zeros(5)).right


def test_nothing_at_all_is_right() -> None:
    empty = torch.zeros(0, 4)
    assert measure(empty, empty.double(), empty).right


def test_another_shape_or_dtype_is_refused(reference: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="accuracy: out is"):
        measure(reference.float(), reference, reference.half())
    with pytest.raises(ValueError, match="accuracy: out is"):
        measure(reference[:3].float(), reference, reference.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_ulp_is_the_distance_to_the_next_number(dtype: torch.dtype) -> None:
    bits = torch.int32 if dtype is torch.float32 else torch.int16
    values = torch.tensor([1.0, 1.5, 1.99, 2.0, 1000.0, 0.001], dtype=dtype)
    following = (values.view(bits) + 1).view(dtype)
    assert torch.equal(ulp(values.double(), dtype), following.double() - values.double())
    assert torch.equal(ulp(-values.double(), dtype), ulp(values.double(), dtype))
