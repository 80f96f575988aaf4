"""Modules: torch's parameters, our operators."""

from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels import nn

PAIRS = {"LayerNorm": (nn.LayerNorm, torch.nn.LayerNorm), "RMSNorm": (nn.RMSNorm, torch.nn.RMSNorm)}
SHAPES: dict[str, Any] = {"int": 48, "one": (48,), "two": (3, 16), "three": (2, 4, 6)}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "eps": {"eps": 1e-2},
    "no parameters": {"elementwise_affine": False},
    "bfloat16": {"dtype": torch.bfloat16},
    "no bias": {"bias": False},
}


def pairs() -> list[Any]:
    """Ours and torch's, with every option both take."""
    return [
        pytest.param(*PAIRS[name], options, id=f"{name}, {option}")
        for name in PAIRS
        for option, options in OPTIONS.items()
        if name == "LayerNorm" or "bias" not in options
    ]


def same(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> None:
    """Equal within the rounding of their dtype."""
    assert ours is not None
    assert theirs is not None
    tolerance = 4 * torch.finfo(theirs.dtype).eps
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("ours", "theirs", "options"), pairs())
def test_drop_in_for_torch(ours: Any, theirs: Any, options: dict[str, Any], shape: str) -> None:
    torch.manual_seed(0)
    options = {"eps": 1e-5, **options}
    module, reference = ours(SHAPES[shape], **options), theirs(SHAPES[shape], **options)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter)
    module.load_state_dict(reference.state_dict())
    assert list(module.state_dict()) == list(reference.state_dict())
    assert repr(module) == repr(reference)
    x = torch.randn(5, 2, *reference.normalized_shape, dtype=options.get("dtype", torch.float32))
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = reference(other)
    dy = torch.randn_like(y)
    y.backward(dy)
    with cute_kernels.simulate():
        out = module(mine)
        out.backward(dy)
    assert out.dtype is y.dtype
    same(out, y)
    same(mine.grad, other.grad)
    for parameter, twin in zip(module.parameters(), reference.parameters(), strict=True):
        same(parameter.grad, twin.grad)


@pytest.mark.parametrize("name", PAIRS)
def test_dimensions_laid_out_otherwise(name: str) -> None:
    module = PAIRS[name][0]((4, 8), eps=1e-5)
    x = torch.randn(3, 8, 4).mT
    with cute_kernels.simulate():
        assert torch.equal(module(x), module(x.contiguous()))


@pytest.mark.parametrize("name", PAIRS)
def test_another_shape_is_refused(name: str) -> None:
    with (
        cute_kernels.simulate(),
        pytest.raises(ValueError, match=r"_norm: x is of shape \[3, 8\]; it takes \[..., 4, 8\]"),
    ):
        PAIRS[name][0]((4, 8))(torch.zeros(3, 8))


def test_eps_of_rms_norm_is_the_operators() -> None:
    x = torch.randn(4, 32) * 1e-3
    with cute_kernels.simulate():
        assert torch.equal(nn.RMSNorm(32)(x), cute_kernels.rms_norm(x, torch.ones(32), eps=1e-6))


def test_linear_norm_trains() -> None:
    torch.manual_seed(0)
    module = nn.LinearNorm(64, 128, dtype=torch.bfloat16)
    x = torch.randn(2, 3, 64).bfloat16()
    with cute_kernels.simulate() as simulation:
        out = module(x)
        out.float().square().sum().backward()
    assert out.shape == (2, 3, 128)
    assert len(simulation.reports) == 1
    assert module.weight.grad is not None
    assert module.weight.grad.shape == (128, 64)
    assert list(module.state_dict()) == ["weight"]


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_every_parameter_of_a_linear_norm_trains(norm: str) -> None:
    torch.manual_seed(0)
    module = nn.LinearNorm(64, 72, norm, bias=True, elementwise_affine=True, dtype=torch.bfloat16)
    names = ["weight", "bias", "norm_weight"] + (["norm_bias"] if norm == "layer" else [])
    assert list(module.state_dict()) == names
    x, residual = torch.randn(5, 64).bfloat16(), torch.randn(5, 72).bfloat16().requires_grad_()
    with cute_kernels.simulate():
        module(x, residual).float().square().sum().backward()
    assert all(module.get_parameter(name).grad is not None for name in names)
    assert residual.grad is not None


def test_a_linear_norm_prints_what_it_is() -> None:
    assert repr(nn.LinearNorm(64, 128)) == "LinearNorm(64, 128, norm='rms', eps=None)"
    whole = nn.LinearNorm(64, 128, "layer", 1e-3, bias=True, elementwise_affine=True)
    assert repr(whole) == "LinearNorm(64, 128, norm='layer', eps=0.001, bias=True, elementwise_affine=True)"
