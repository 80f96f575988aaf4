"""Hyper-connections on the GPU under the correctness rule: every token count, width, split, number of repeats and size of logits."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.hyper_connection import project
from cute_kernels.hyper_connection.cases import CASES, Normed, Post, Pre, inputs
from cute_kernels.runtime.accuracy import measure
from perf.hyper_connection import in_tuple, of_tokens

Arguments = dict[str, Any]
KINDS: dict[str, Any] = {"mhc_post": Post, "mhc_pre_big_fuse": Pre, "mhc_pre_big_fuse_with_prenorm": Normed}
PRES = ("mhc_pre_big_fuse", "mhc_pre_big_fuse_with_prenorm")
TOKENS = (0, 1, 2, 13, 128, 129, 4096)
WIDTHS = (8, 64, 128, 1280, 2560, 4096, 5120, 7168, 7680, 16392, 32768)
JUDGED = 2048  # tokens compared in float64 at a time
NAMES = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(autouse=True)
def poisoned_outputs() -> Any:
    """torch.empty gives NaN: an element that a kernel does not write shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    yield
    torch.use_deterministic_algorithms(False)


def check(name: str, arguments: Arguments) -> tuple[torch.Tensor, ...]:
    """Hold the first, the middle and the last tokens to the rule, and all to be written; what the operator returned."""
    operator, count = OPERATORS[name], len(arguments["X"])
    outs = in_tuple(operator.call(**arguments))
    for start in sorted({0, count // 2, max(0, count - JUDGED)}):
        tokens = slice(start, min(start + JUDGED, count))
        part = of_tokens(arguments, tokens)
        exact, chain = in_tuple(operator.reference(**part)), in_tuple(operator.yardstick(**part))
        found = measure(tuple(out[tokens] for out in outs), exact, chain, operator.allowed(**part))
        assert found.right, found
    assert all(out.isfinite().all() for out in outs)
    return outs


@NAMES
@pytest.mark.parametrize("h", WIDTHS)
def test_every_width(name: str, h: int) -> None:
    check(name, inputs(KINDS[name](129, h), "cuda"))


@NAMES
@pytest.mark.parametrize("m", TOKENS)
@pytest.mark.parametrize("h", [72, 4096])
def test_every_token_count(name: str, m: int, h: int) -> None:
    check(name, inputs(KINDS[name](m, h), "cuda"))


@NAMES
@pytest.mark.parametrize(("m", "h"), [(74900, 7168), (131073, 4096)])
def test_more_than_two_to_the_31_elements(name: str, m: int, h: int) -> None:
    check(name, inputs(KINDS[name](m, h), "cuda"))


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, some in CASES.items() for case in some], ids=str)
def test_cases(name: str, case: Any) -> None:
    check(name, inputs(case, "cuda"))


@pytest.mark.parametrize("splits", [1, 2, 3, 4, 8, 16, 66])
@pytest.mark.parametrize("h", [64, 1280, 7168])
def test_every_split(splits: int, h: int) -> None:
    arguments = inputs(Pre(128, h, splits), "cuda")
    outs = check("mhc_pre_big_fuse", arguments)
    if splits > 1:  # added by the host in the same order, they give the same bits
        for name in ("dot_mix", "sqrsum"):
            total, *others = arguments[name].unbind()
            for part in others:
                total = total + part
            arguments[name] = total
        assert all(map(torch.equal, outs, in_tuple(OPERATORS["mhc_pre_big_fuse"].call(**arguments))))


@pytest.mark.parametrize("name", PRES)
@pytest.mark.parametrize("repeats", [1, 2, 20])
@pytest.mark.parametrize("logit", [0.0, 50.0, 1e4])
def test_repeats_and_logits(name: str, repeats: int, logit: float) -> None:
    check(name, inputs(KINDS[name](128, 1280, repeats=repeats, logit=logit), "cuda"))


@pytest.mark.parametrize("name", PRES)
def test_every_eps_may_be_zero(name: str) -> None:
    check(name, inputs(KINDS[name](128, 1280), "cuda") | {"rms_eps": 0.0, "pre_eps": 0.0, "sinkhorn_eps": 0.0})


@NAMES
@pytest.mark.parametrize("n", [2, 8])
def test_two_and_eight_streams(name: str, n: int) -> None:
    for h in (64, 1280, 7168):
        check(name, inputs(KINDS[name](129, h, n=n), "cuda"))


@NAMES
@pytest.mark.parametrize("h", [64, 1280, 7168, 32768])
def test_a_token_is_the_same_alone_and_in_any_batch(name: str, h: int) -> None:
    arguments = inputs(KINDS[name](300, h), "cuda")
    whole = in_tuple(OPERATORS[name].call(**arguments))
    for tokens in (slice(0, 1), slice(17, 18), slice(100, 229)):
        some = in_tuple(OPERATORS[name].call(**of_tokens(arguments, tokens)))
        assert all(torch.equal(one[tokens], other) for one, other in zip(whole, some, strict=True))


@NAMES
@pytest.mark.parametrize("argument", ["X", "dot_mix"])
def test_a_nan_token_stays_alone(name: str, argument: str) -> None:
    arguments = inputs(KINDS[name](300, 1280), "cuda")
    if argument not in arguments:
        argument = "comb"
    clean = in_tuple(OPERATORS[name].call(**arguments))
    arguments[argument][7] = torch.nan
    bad = in_tuple(OPERATORS[name].call(**arguments))
    others = [token for token in range(300) if token != 7]
    assert all(torch.equal(one[others], other[others]) for one, other in zip(clean, bad, strict=True))
    assert bad[-1][7].isnan().all()


@pytest.mark.parametrize("splits", [None, 1, 2, 3, 16])
@pytest.mark.parametrize(("m", "n", "h"), [(1, 4, 64), (129, 4, 1280), (4096, 4, 7168), (300, 2, 4096), (13, 8, 1280)])
def test_projection(m: int, n: int, h: int, splits: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(project.ON_GPU, "1")
    x = torch.randn(m, n, h, device="cuda").bfloat16()
    w = torch.randn(n * (2 + n), n * h, device="cuda") / (n * h) ** 0.5
    dots, squares = ck.mhc_project(x, w, splits, precision="high")
    flat = x.flatten(1).double()
    for found, exact in ((dots, flat @ w.double().T), (squares, flat.square().sum(1))):
        assert (found.double().sum(0) - exact).norm() < 1e-5 * exact.norm()
    for _ in range(20):
        assert all(map(torch.equal, (dots, squares), ck.mhc_project(x, w, splits)))
    if n < 8:  # a kernel of ours; PyTorch's product of eight streams depends on the batch
        alone = ck.mhc_project(x[m // 2 : m // 2 + 1], w, splits)
        assert torch.equal(alone[0], dots[:, m // 2 : m // 2 + 1])
        assert torch.equal(alone[1], squares[:, m // 2 : m // 2 + 1])


@NAMES
def test_a_hundred_repeats_are_bitwise_equal(name: str) -> None:
    arguments = inputs(KINDS[name](1000, 7168), "cuda")
    first = in_tuple(OPERATORS[name].call(**arguments))
    for _ in range(100):
        assert all(map(torch.equal, first, in_tuple(OPERATORS[name].call(**arguments))))


@NAMES
def test_a_captured_graph_replays(name: str) -> None:
    arguments = inputs(KINDS[name](128, 7168), "cuda")
    expected = in_tuple(OPERATORS[name].call(**arguments))
    torch.use_deterministic_algorithms(False)  # no fills within the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = in_tuple(OPERATORS[name].call(**arguments))
    for _ in range(20):
        for out in outs:
            out.fill_(torch.nan)
        graph.replay()
        assert all(map(torch.equal, outs, expected))


@NAMES
@pytest.mark.parametrize("m", [5, 127, 4096])
@pytest.mark.parametrize("h", [1280, 4096, 7168])
def test_gradients_against_float64(name: str, m: int, h: int) -> None:
    operator, arguments = OPERATORS[name], inputs(replace(CASES[name][0], m=m, h=h, n=4), "cuda")
    found, exact, chain = (
        gradients(how, arguments, dtype)
        for how, dtype in (
            (operator.call, None),
            (operator.reference, torch.float64),
            (operator.yardstick, torch.float32),
        )
    )
    for argument, value in found.items():
        yardstick = chain[argument].to(value.dtype)
        accuracy = measure(value, exact[argument], yardstick)
        assert accuracy.right or near(value, exact[argument], yardstick), f"{argument}: {accuracy}"


def near(value: torch.Tensor, exact: torch.Tensor, yardstick: torch.Tensor) -> bool:
    """For float32 only: both are within a few roundings, and by chance the yardstick's largest may be the smaller."""
    error, chains = ((v.double() - exact).abs().max() for v in (value, yardstick))
    return value.dtype is torch.float32 and bool(error <= 4 * chains + 2.0**-22 * exact.abs().max())


def gradients(how: Any, arguments: Arguments, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    """Of all outputs by all tensors; incoming gradients that bfloat16 holds."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    leaves = {name: value.detach().to(dtype or value.dtype).requires_grad_() for name, value in tensors.items()}
    outs, generator = in_tuple(how(**{**arguments, **leaves})), torch.Generator("cuda").manual_seed(1)
    incoming = [torch.randn(o.shape, generator=generator, device="cuda").bfloat16().to(o.dtype) for o in outs]
    return dict(zip(leaves, torch.autograd.grad(outs, list(leaves.values()), incoming), strict=True))
