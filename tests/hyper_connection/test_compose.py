"""Projection, pre and post put together, and the module around a layer."""

from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.hyper_connection import reference


def streams(m: int = 5, n: int = 4, h: int = 64) -> dict[str, torch.Tensor]:
    """X and the parameters of a sublayer."""
    torch.manual_seed(m + h)
    mixes = n * (2 + n)
    return {
        "X": torch.randn(m, n, h).bfloat16(),
        "W": torch.randn(mixes, n * h) / (n * h) ** 0.5,
        "scale": 1 + 0.1 * torch.randn(3),
        "base": torch.randn(mixes),
    }


@pytest.mark.parametrize(("arch", "kernels"), [("sm_90a", 1), ("sm_100a", 0)])
@pytest.mark.parametrize("splits", [None, 1, 2, 3, 16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("m", "n", "h"), [(5, 4, 320), (130, 2, 512), (1, 8, 136)])
def test_projection(m: int, n: int, h: int, dtype: torch.dtype, splits: int | None, arch: str, kernels: int) -> None:
    given = streams(m, n, h)
    x, w = given["X"].to(dtype), given["W"]
    with ck.simulate(arch) as simulation:
        dots, squares = ck.mhc_project(x, w, splits)
    flat = x.flatten(1).double()
    assert len(simulation.plans) == (kernels if n < 8 and dtype is torch.bfloat16 else 0)
    assert dots.shape == (splits or 8, m, n * (2 + n))
    assert squares.shape == (splits or 8, m)
    for found, exact in ((dots, flat @ w.double().T), (squares, flat.square().sum(1))):
        assert (found.double().sum(0) - exact).norm() < 1e-5 * exact.norm()


def test_parts_have_the_pieces_of_k_whichever_way_they_are_computed() -> None:
    given = streams(5, 4, 320)
    results = []
    for arch in ("sm_90a", "sm_100a"):
        with ck.simulate(arch):
            results.append(ck.mhc_project(given["X"], given["W"], 3))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_more_parts_than_pieces_are_empty() -> None:
    given = streams(5, 4, 64)
    with ck.simulate() as simulation:
        dots, squares = ck.mhc_project(given["X"], given["W"], 66)
    assert not simulation.plans
    torch.testing.assert_close(dots.sum(0), given["X"].flatten(1).float() @ given["W"].T)
    torch.testing.assert_close(squares.sum(0), given["X"].flatten(1).float().square().sum(1))


@pytest.mark.parametrize("leading", [(), (0,), (2, 3)])
@pytest.mark.parametrize("splits", [1, 3])
def test_gradients_of_the_projection(splits: int, leading: tuple[int, ...]) -> None:
    x = torch.randn(*leading, 4, 64).bfloat16().requires_grad_()
    w = (torch.randn(24, 256) / 16).requires_grad_()
    wide, heavy = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    with ck.simulate():
        dots, squares = ck.mhc_project(x, w, splits)
        incoming = [torch.randn(out.shape[1:]).expand_as(out) for out in (dots, squares)]
        found = torch.autograd.grad((dots, squares), (x, w), incoming)
    flat = wide.flatten(-2)
    exact = torch.autograd.grad(
        (flat @ heavy.mT, flat.square().sum(-1)), (wide, heavy), [one[0].double() for one in incoming]
    )
    torch.testing.assert_close(found[0].double(), exact[0], rtol=2**-8, atol=1e-3)
    torch.testing.assert_close(found[1].double(), exact[1], rtol=1e-5, atol=1e-4)


def test_pre_and_its_pre_against_float64() -> None:
    given = streams()
    x, scale, base = given["X"], given["scale"], given["base"]
    with ck.simulate():
        dots, squares = ck.mhc_project(given["X"], given["W"])
        post, comb, layer_input, pre = ck.mhc_pre(**given, return_pre=True)
    exact = reference.mhc_pre_big_fuse(dots, squares, x, scale, base)
    for found, wanted in zip((post, comb), exact, strict=False):
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)
    weighed = (pre.double()[:, None] @ x.double()).squeeze(1)
    torch.testing.assert_close(weighed, exact[2], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer_input.double(), exact[2], rtol=2**-8, atol=1e-3)


def test_a_carried_pre_weighs_the_streams() -> None:
    given = streams()
    carried = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(5, 4)
    with ck.simulate():
        post, comb, layer_input = ck.mhc_pre(**given, carried_pre=carried)
        own_post, own_comb, own = ck.mhc_pre(**given)
    assert torch.equal(layer_input, given["X"][:, 1])
    assert not torch.equal(own, layer_input)
    assert torch.equal(post, own_post)
    assert torch.equal(comb, own_comb)


@pytest.mark.parametrize("splits", [1, 3])
def test_post_pre_has_the_bits_of_the_two_calls(splits: int) -> None:
    given, following = streams(), streams(h=64)
    f = torch.randn(5, 64).bfloat16()
    with ck.simulate():
        post, comb, _ = ck.mhc_pre(**given)
        x = ck.mhc_post(f, given["X"], post, comb)
        parameters = [following[name] for name in ("W", "scale", "base")]
        separate = (x, *ck.mhc_pre(x, *parameters, num_splits=splits))
        together = ck.mhc_post_pre(f, given["X"], post, comb, *parameters, num_splits=splits)
    assert all(map(torch.equal, separate, together))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"W": torch.zeros(24, 255)}, ValueError, "W is of shape [24, 255]; it takes [24, 256]"),
        ({"W": torch.zeros(24, 256).half()}, TypeError, "W is torch.float16; it takes torch.float32"),
        ({"num_splits": 0}, ValueError, "num_splits is 0; it takes None or an integer >= 1"),
        ({"precision": "low"}, ValueError, "precision is 'low'; it takes 'tf32' or 'high'"),
    ],
)
def test_refusals(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {name: value for name, value in streams().items() if name in ("X", "W")}
    with ck.simulate(), pytest.raises(error) as caught:
        ck.mhc_project(**given | change)
    assert str(caught.value) == f"mhc_project: {message}"


def test_a_module_around_a_layer_trains() -> None:
    torch.manual_seed(1)
    layer = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    module = ck.nn.HyperConnection(layer, 64, sinkhorn_repeats=3)
    x = torch.randn(2, 3, 4, 64).bfloat16().requires_grad_()
    with ck.simulate():
        out = module(x)
        out.float().square().sum().backward()
    assert out.shape == x.shape
    assert out.dtype is x.dtype
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any(), name
    assert x.grad is not None
    assert "sinkhorn_repeats=3" in repr(module)


def test_the_module_is_what_its_formula_says() -> None:
    module, x = ck.nn.HyperConnection(lambda u, factor: factor * u, 64), torch.randn(5, 4, 64).bfloat16()
    with ck.simulate(), torch.no_grad():
        out = module(x, 3.0)
        post, comb, u = ck.mhc_pre(x, module.weight, module.scale, module.base)
        assert torch.equal(out, ck.mhc_post(3.0 * u, x, post, comb))


def test_an_eps_of_none_is_the_default_for_pre_too() -> None:
    given = streams(5, 4, 64)
    with ck.simulate():
        usual = ck.mhc_pre(**given, return_pre=True)
        none = ck.mhc_pre(**given, return_pre=True, rms_eps=None, pre_eps=None)
    assert all(map(torch.equal, usual, none))
