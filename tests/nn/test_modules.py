"""Modules: torch's parameters, our operators."""

import torch

import cute_kernels
from cute_kernels import nn


def test_rms_norm_loads_what_torch_saved() -> None:
    theirs = torch.nn.RMSNorm(48)
    torch.nn.init.normal_(theirs.weight)
    ours = nn.RMSNorm(48, eps=torch.finfo(torch.float32).eps)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 48)
    with cute_kernels.simulate():
        assert torch.allclose(ours(x), theirs(x), rtol=1e-5, atol=1e-6)


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


def test_modules_print_what_they_are() -> None:
    assert repr(nn.RMSNorm(8, eps=1e-5)) == "RMSNorm(8, eps=1e-05)"
    assert repr(nn.LinearNorm(64, 128)) == "LinearNorm(64, 128, norm='rms', eps=None)"
