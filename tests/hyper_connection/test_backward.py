"""Gradients of hyper-connections by their kernels, against float64, and what is not asked for."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.hyper_connection.cases import CASES, Post, Pre, inputs
from cute_kernels.hyper_connection.formulas import of_sinkhorn
from cute_kernels.hyper_connection.reference import sinkhorn
from cute_kernels.runtime.accuracy import measure

Arguments = dict[str, Any]
BACKWARD = {
    "mhc_post": "mhc_post_backward",
    "mhc_pre_big_fuse": "mhc_pre_backward",
    "mhc_pre_big_fuse_with_prenorm": "mhc_pre_backward",
}


def gradients(how: Any, arguments: Arguments, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Of all outputs by all tensors; incoming gradients that bfloat16 holds."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    leaves = {name: value.detach().to(dtype or value.dtype).requires_grad_() for name, value in tensors.items()}
    out, generator = how(**{**arguments, **leaves}), torch.Generator().manual_seed(1)
    outs = out if isinstance(out, tuple) else (out,)
    incoming = [torch.randn(o.shape, generator=generator).bfloat16().to(o.dtype) for o in outs]
    return dict(zip(leaves, torch.autograd.grad(outs, list(leaves.values()), incoming), strict=True))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("m", "h", "n"), [(1, 8, 4), (5, 1280, 4), (13, 64, 2), (7, 520, 8), (3, 1003, 4), (40, 72, 4)]
)
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name: str, m: int, h: int, n: int, arch: str) -> None:
    operator, arguments = OPERATORS[name], inputs(replace(CASES[name][0], m=m, h=h, n=n))
    with ck.simulate(arch) as simulation:
        found = gradients(operator.call, arguments)
    ran = [plan.operator for plan in simulation.plans]
    assert ran in ([name, BACKWARD[name]], [name, BACKWARD[name], "mhc_add_parts"])
    exact, chain = (
        gradients(operator.reference, arguments, torch.float64),
        gradients(operator.yardstick, arguments, torch.float32),
    )
    for argument, value in found.items():
        accuracy = measure(value, exact[argument], chain[argument].to(value.dtype))
        assert accuracy.right, f"{argument}: {accuracy}"


@pytest.mark.parametrize(
    ("asked", "tensors"),
    [
        ({"f"}, {"dout0", "df", "post"}),
        ({"X"}, {"dout0", "dx0", "comb"}),
        ({"post"}, {"dout0", "f", "x0", "parts"}),
        ({"f", "comb"}, {"dout0", "f", "x0", "df", "post", "parts"}),
    ],
)
def test_a_kernel_reads_and_writes_only_what_is_asked_for(asked: set[str], tensors: set[str]) -> None:
    arguments = inputs(Post(5, 64))
    leaves = {name: value.requires_grad_(name in asked) for name, value in arguments.items()}
    with ck.simulate() as simulation:
        ck.mhc_post(**leaves).float().sum().backward()
    names = {tensor.name for tensor in simulation.plans[-1].tensors}
    assert {name for name in names if not name[-1:].isdigit() or name.endswith("0")} == tensors
    assert {name for name in arguments if leaves[name].grad is not None} == asked


@pytest.mark.parametrize("used", [used for used in itertools.product([False, True], repeat=3) if any(used)])
def test_outputs_that_are_not_used(used: tuple[bool, bool, bool]) -> None:
    arguments = inputs(Pre(5, 64, 2))
    reference, operator = OPERATORS["mhc_pre_big_fuse"].reference, ck.mhc_pre_big_fuse

    def loss(how: Any, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
        leaves = {name: v.detach().to(dtype or v.dtype).requires_grad_() for name, v in arguments.items()}
        outs = how(**leaves)
        sum(out.double().sum() for out, use in zip(outs, used, strict=True) if use).backward()
        return {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}

    with ck.simulate():
        found = loss(operator, None)
    exact = loss(reference, torch.float64)
    for name, value in found.items():
        torch.testing.assert_close(value.double(), exact[name], rtol=1e-2, atol=2e-2 if name == "X" else 1e-4)


def test_a_token_s_gradients_are_the_same_alone_and_in_any_batch() -> None:
    arguments = inputs(Post(37, 1280))
    dout = torch.randn(37, 4, 1280).bfloat16()

    def run(tokens: slice) -> list[torch.Tensor]:
        leaves = [arguments[name][tokens].detach().requires_grad_() for name in ("f", "X", "post", "comb")]
        with ck.simulate():
            return list(torch.autograd.grad(ck.mhc_post(*leaves), leaves, dout[tokens]))

    whole = run(slice(None))
    for tokens in (slice(0, 1), slice(17, 18), slice(30, 37)):
        assert all(torch.equal(one[tokens], other) for one, other in zip(whole, run(tokens), strict=True))


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-2])
@pytest.mark.parametrize("repeats", [1, 2, 20])
def test_sinkhorn_in_reverse(repeats: int, eps: float) -> None:
    logits = torch.randn(9, 4, 4, dtype=torch.float64).requires_grad_()
    gradient = torch.randn(9, 4, 4, dtype=torch.float64)
    (exact,) = torch.autograd.grad(sinkhorn(logits, eps, repeats), logits, gradient)
    found = of_sinkhorn(logits.detach(), gradient, eps, repeats)
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)
