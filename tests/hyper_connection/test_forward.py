"""Hyper-connections against float64, over their cases, and what only they have."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.hyper_connection import prepare
from cute_kernels.hyper_connection.cases import CASES, Normed, Post, Pre, inputs
from cute_kernels.runtime.accuracy import measure

Arguments = dict[str, Any]
EACH = [(name, case) for name, cases in CASES.items() for case in cases]
PRES = ("mhc_pre_big_fuse", "mhc_pre_big_fuse_with_prenorm")


def case_of(name: str, m: int, h: int, **more: Any) -> Any:
    """A case of an operator."""
    return replace(CASES[name][0], **{"m": m, "h": h, **more})


def outputs(name: str, arguments: Arguments) -> tuple[torch.Tensor, ...]:
    """All that an operator returns."""
    out = OPERATORS[name].call(**arguments)
    return out if isinstance(out, tuple) else (out,)


def assert_right(name: str, arguments: Arguments) -> None:
    operator = OPERATORS[name]
    exact, chain = operator.reference(**arguments), operator.yardstick(**arguments)
    found = measure(operator.call(**arguments), exact, chain, operator.allowed(**arguments))
    assert found.right, str(found)


def of_tokens(arguments: Arguments, tokens: slice) -> Arguments:
    """The arguments of some tokens."""
    found: Arguments = {name: arguments[name][tokens] for name in ("X", "f", "post", "comb") if name in arguments}
    for name, behind in (("dot_mix", 1), ("sqrsum", 0)):
        if name in arguments:
            found[name] = arguments[name].movedim(-1 - behind, 0)[tokens].movedim(0, -1 - behind)
    return arguments | found


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("name", "case"), EACH, ids=str)
def test_cases(name: str, case: Any, arch: str) -> None:
    with cute_kernels.simulate(arch) as simulation:
        assert_right(name, inputs(case))
    assert [plan.target.arch for plan in simulation.plans] == [arch]


@pytest.mark.parametrize("m", [0, 1, 2, 13, 128, 129])
@pytest.mark.parametrize("name", CASES)
def test_token_counts(name: str, m: int) -> None:
    with cute_kernels.simulate():
        assert_right(name, inputs(case_of(name, m, 64)))


@pytest.mark.parametrize("splits", [1, 2, 3, 4, 8, 16, 66])
def test_splits_are_added_in_their_order(splits: int) -> None:
    """As float32 does it one by one, whatever a device loads at once."""
    arguments = inputs(Pre(5, 64, splits))
    dot, squares = (arguments[name].unbind() if splits > 1 else [arguments[name]] for name in ("dot_mix", "sqrsum"))
    one = arguments | {"dot_mix": one_by_one(dot), "sqrsum": one_by_one(squares)}
    with cute_kernels.simulate():
        both = [outputs("mhc_pre_big_fuse", given) for given in (arguments, one)]
    assert all(map(torch.equal, *both))


def one_by_one(parts: Any) -> torch.Tensor:
    """Σ parts, from the first to the last."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.parametrize("h", [72, 1280, 4096])
@pytest.mark.parametrize("name", CASES)
def test_a_token_is_the_same_alone_and_in_any_batch(name: str, h: int) -> None:
    arguments = inputs(case_of(name, 37, h))
    with cute_kernels.simulate():
        whole = outputs(name, arguments)
        for tokens in (slice(0, 1), slice(17, 18), slice(30, 37)):
            some = outputs(name, of_tokens(arguments, tokens))
            assert all(torch.equal(one[tokens], other) for one, other in zip(whole, some, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_nan_token_stays_alone(name: str) -> None:
    arguments = inputs(case_of(name, 13, 1280))
    with cute_kernels.simulate():
        clean = outputs(name, arguments)
        arguments["X"][7, 1, 5] = torch.nan
        bad = outputs(name, arguments)
    others = [token for token in range(13) if token != 7]
    assert all(torch.equal(one[others], other[others]) for one, other in zip(clean, bad, strict=True))
    assert bad[-1][7].isnan().any()


@pytest.mark.parametrize("name", PRES)
def test_a_token_of_nan_mixes_stays_alone(name: str) -> None:
    arguments = inputs(case_of(name, 13, 64, **({"splits": 2} if name == PRES[0] else {})))
    with cute_kernels.simulate():
        clean = outputs(name, arguments)
        arguments["dot_mix"][..., 7, :] = torch.nan
        bad = outputs(name, arguments)
    others = [token for token in range(13) if token != 7]
    assert all(torch.equal(one[others], other[others]) for one, other in zip(clean, bad, strict=True))
    assert all(one[7].isnan().all() for one in bad)


@pytest.mark.parametrize("name", PRES)
def test_every_eps_may_be_zero(name: str) -> None:
    none = {"rms_eps": 0.0, "pre_eps": 0.0, "sinkhorn_eps": 0.0}
    with cute_kernels.simulate():
        assert_right(name, inputs(case_of(name, 5, 64)) | none)


def test_twenty_repeats_give_a_doubly_stochastic_matrix() -> None:
    with cute_kernels.simulate():
        _, comb, _ = outputs("mhc_pre_big_fuse", inputs(Pre(9, 64)))
    for axis in (-1, -2):
        torch.testing.assert_close(comb.sum(axis), torch.ones(9, 4), rtol=0, atol=2e-3)


@pytest.mark.parametrize("leading", [(2, 3), (6,)])
@pytest.mark.parametrize("splits", [1, 3])
def test_parts_with_the_leading_dimensions_of_x_or_flat(leading: tuple[int, ...], splits: int) -> None:
    flat = inputs(Pre(6, 64, splits))
    shaped = flat | {"X": flat["X"].view(*leading, 4, 64)}
    parts = {name: flat[name].unflatten(-1 - behind, leading) for name, behind in (("dot_mix", 1), ("sqrsum", 0))}
    with cute_kernels.simulate():
        expected = outputs("mhc_pre_big_fuse", flat)
        for given in (shaped, shaped | parts):
            found = outputs("mhc_pre_big_fuse", given)
            assert [list(one.shape) for one in found] == [[*leading, 4], [*leading, 4, 4], [*leading, 64]]
            assert all(torch.equal(one.view(other.shape), other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"dot_mix": torch.zeros(5, 24)},
            ValueError,
            "dot_mix is of shape [5, 24]; it takes [6, 24], or [S, …] of these",
        ),
        ({"dot_mix": torch.zeros(0, 6, 24)}, ValueError, "dot_mix is of shape [0, 6, 24]"),
        ({"dot_mix": torch.zeros(6, 24).half()}, TypeError, "dot_mix is torch.float16"),
        ({"sqrsum": torch.zeros(2, 6)}, ValueError, "sqrsum is in 2 parts; it takes as many as dot_mix has, 1"),
        (
            {"X": torch.zeros(6, 3, 64).half()},
            ValueError,
            "X is of shape [6, 3, 64]; it takes [..., n, H] with n 2, 4 or 8",
        ),
        ({"scale": torch.zeros(4)}, ValueError, "scale is of shape [4]; it takes [3]"),
        ({"sinkhorn_repeats": 0}, ValueError, "sinkhorn_repeats is 0; it takes an integer >= 1"),
        ({"sinkhorn_repeats": 2.0}, TypeError, "sinkhorn_repeats is 2.0; it takes an integer >= 1"),
        ({"post_mult": float("inf")}, ValueError, "post_mult is inf; it takes a finite number"),
        ({"sinkhorn_eps": -1.0}, ValueError, "sinkhorn_eps is -1.0; it takes None or a finite number >= 0"),
    ],
)
def test_refusals_of_big_fuse(change: Arguments, error: type[Exception], message: str) -> None:
    arguments = inputs(Pre(6, 64)) | change
    with cute_kernels.simulate() as simulation, pytest.raises(error) as caught:
        outputs("mhc_pre_big_fuse", arguments)
    assert str(caught.value).startswith(f"mhc_pre_big_fuse: {message}")
    assert not simulation.reports


def test_prenorm_takes_one_part() -> None:
    arguments = inputs(Normed(6, 64))
    parts = arguments["dot_mix"].expand(2, -1, -1)
    with cute_kernels.simulate(), pytest.raises(ValueError, match="dot_mix is in 2 parts; it takes one part"):
        outputs("mhc_pre_big_fuse_with_prenorm", arguments | {"dot_mix": parts})


@pytest.mark.parametrize("name", CASES)
def test_few_tokens_fill_the_machine(name: str) -> None:
    """128 tokens of 7168 columns: more CTAs than a GPU has SMs."""
    case = case_of(name, 1, 7168)
    with cute_kernels.simulate() as simulation:
        outputs(name, inputs(case))
    (plan,) = simulation.plans
    assert plan.blocks(128) > plan.target.sms


@pytest.mark.parametrize("case", [Post(3, 4096), Pre(8, 4096, 2), Normed(3, 4096)], ids=str)
def test_every_byte_is_moved_once(case: Any) -> None:
    """X is read once and what is written is written once; coefficients, which all CTAs of a token read, are small beside it."""
    name = {Post: "mhc_post", Pre: "mhc_pre_big_fuse", Normed: "mhc_pre_big_fuse_with_prenorm"}[type(case)]
    with cute_kernels.simulate() as simulation:
        outputs(name, inputs(case))
    (report,) = simulation.reports
    assert report.bytes_read + report.bytes_written < 1.03 * case.bytes_least


def test_plans_are_kept() -> None:
    prepare.planned.cache_clear()
    with cute_kernels.simulate() as simulation:
        for m in (1, 2, 3):
            outputs("mhc_post", inputs(Post(m, 64)))
    assert len({id(plan) for plan in simulation.plans}) == 1
