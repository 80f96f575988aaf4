"""Both norms on the GPU under the correctness rule, forward and backward: every length and dtype, and rows that are hard.

A case is a kernel or two to compile, a second each: `pytest -n 8` shares them out over the machine's cores.
"""

import itertools
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.norms.cases import CASES, LONG, Case, inputs
from cute_kernels.runtime.accuracy import measure

Arguments = dict[str, Any]
NORMS = ("rms_norm", "layer_norm")
LENGTHS = (1, 7, 8, 100, 512, 1000, 1024, 2520, 4095, 4096, 4097, 8192, 40000, 131072)
MEANS = {"float32": 1e4, "float16": 1e3, "bfloat16": 1e2}  # beyond these a half of deviation 1 is a constant
FEW = 33  # columns
CONSTANTS = (0.0, 1.0, -300.0, 6e4)


@pytest.fixture(autouse=True)
def poisoned_outputs() -> Any:
    """torch.empty gives NaN: an element that a kernel does not write shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    yield
    torch.use_deterministic_algorithms(False)


def rows(n: int) -> int:
    """Enough that every cluster of a persistent backward walks over several tiles, the last one ragged."""
    return next(m for most, m in ((100, 140001), (1024, 20003), (4097, 3001), (8192, 701), (1 << 20, 37)) if n <= most)


def case_of(n: int, dtype: str, mean: float = 0.0) -> Case:
    """Everything a norm takes; the weight's dtype by turns x's and float32, the bias's the other way round."""
    kinds = (dtype, "float32")[:: 1 if LENGTHS.index(n) % 2 else -1]
    return Case(rows(n), n, dtype, kinds[0], 0.5, kinds[1], residual=True, mean=mean)


def leaves_of(arguments: Arguments, dtype: torch.dtype | None = None) -> Arguments:
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    return {name: value.detach().to(dtype or value.dtype).requires_grad_() for name, value in tensors.items()}


def out_and_gradients(how: Any, arguments: Arguments, dy: torch.Tensor, dtype: torch.dtype | None = None) -> Arguments:
    """y, and the gradients by the arguments' names."""
    leaves = leaves_of(arguments, dtype)
    y = how(**{**arguments, **leaves})
    found = torch.autograd.grad(y, list(leaves.values()), dy.to(y.dtype))
    return {"y": y.detach(), **dict(zip(leaves, found, strict=True))}


def check(operator: Operator, arguments: Arguments) -> None:
    """Hold y and every gradient to the rule."""
    dy = torch.randn(arguments["x"].shape, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    dy = dy.to(arguments["x"].dtype)
    found = out_and_gradients(operator.call, arguments, dy)
    exact = out_and_gradients(operator.reference, arguments, dy, torch.float64)
    yardstick = out_and_gradients(operator.yardstick, arguments, dy, torch.float32)
    for name, value in found.items():
        chain = yardstick[name].to(value.dtype)
        accuracy = measure(value, exact[name], chain)
        assert accuracy.right or near(value, exact[name], chain, len(dy)), f"{name}: {accuracy}"


def near(value: torch.Tensor, exact: torch.Tensor, yardstick: torch.Tensor, m: int) -> bool:
    """For sums over `m` rows of a few columns only: the yardstick's largest error of so few says little, chance may have made it small."""
    if value.dim() > 1 or value.numel() >= FEW:
        return False
    error, chains = ((v.double() - exact).abs().max() for v in (value, yardstick))
    return bool(error <= 4 * chains + 1e-6 * m**0.5 + torch.finfo(value.dtype).eps * exact.abs().max())


@pytest.mark.parametrize("dtype", MEANS)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", NORMS)
def test_every_length_and_dtype(name: str, n: int, dtype: str) -> None:
    check(OPERATORS[name], inputs(case_of(n, dtype), "cuda"))
    if n > 1:  # of one column nothing but rounding is left of a large mean
        check(OPERATORS[name], inputs(case_of(n, dtype, MEANS[dtype]), "cuda"))


@pytest.mark.parametrize("case", [*CASES, *LONG], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_cases(name: str, case: Case) -> None:
    check(OPERATORS[name], inputs(case, "cuda"))


@pytest.mark.parametrize("n", [7, 1000, 8192, 40000])
@pytest.mark.parametrize("name", NORMS)
def test_constant_rows(name: str, n: int) -> None:
    operator = OPERATORS[name]
    x = torch.tensor(CONSTANTS, device="cuda", dtype=torch.float16)[:, None].expand(-1, n)
    accuracy = measure(operator.call(x=x), operator.reference(x=x), operator.yardstick(x=x))
    assert accuracy.right, accuracy


@pytest.mark.parametrize("n", [7, 1000, 8192, 40000])
def test_what_is_constant_is_zero_without_its_mean(n: int) -> None:
    """Though float32 cannot add up, or average, such numbers exactly: but for what is below the rounding of the mean's rest."""
    x = torch.tensor([0.1, 1 / 3, 3.3e3, -7.7e4], device="cuda")[:, None].expand(-1, n)
    assert ck.layer_norm(x).abs().max() < 1e-8


@pytest.mark.parametrize("n", [100, 1000, 8192, 40000])
def test_a_large_mean_costs_no_accuracy(n: int) -> None:
    x = torch.randn(50, n, device="cuda") + 1e4
    exact = OPERATORS["layer_norm"].reference(x=x)
    assert (ck.layer_norm(x).double() - exact).norm() < 5e-7 * exact.norm()


@pytest.mark.parametrize("n", [7, 1000, 8192, 40000])
@pytest.mark.parametrize("name", NORMS)
def test_bad_rows_stay_alone(name: str, n: int) -> None:
    arguments = inputs(Case(37, n, "bfloat16", "float32"), "cuda")
    dy = torch.randn_like(arguments["x"])
    clean = out_and_gradients(OPERATORS[name].call, arguments, dy)
    arguments["x"][3, 5], arguments["x"][30, 2] = torch.nan, torch.inf
    found = out_and_gradients(OPERATORS[name].call, arguments, dy)
    others = [row for row in range(37) if row not in (3, 30)]
    for output in ("y", "x"):
        assert torch.equal(found[output][others], clean[output][others])
        assert found[output][3].isnan().all()
        assert found[output][30].isnan().any()


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_every_subset(name: str) -> None:
    arguments = inputs(case_of(1000, "bfloat16"), "cuda")
    dy = torch.randn_like(arguments["x"])
    everything = out_and_gradients(OPERATORS[name].call, arguments, dy)
    tensors = list(leaves_of(arguments))
    for asked in itertools.chain(*(itertools.combinations(tensors, count) for count in range(1, 5))):
        leaves = {tensor: value.requires_grad_(tensor in asked) for tensor, value in leaves_of(arguments).items()}
        OPERATORS[name].call(**{**arguments, **leaves}).backward(dy)
        assert [tensor for tensor in leaves if leaves[tensor].grad is not None] == [t for t in tensors if t in asked]
        for tensor in asked:
            rtol = 2 * torch.finfo(everything[tensor].dtype).eps  # a bias alone is summed in another order
            torch.testing.assert_close(leaves[tensor].grad, everything[tensor], rtol=rtol, atol=1e-3)


@pytest.mark.parametrize("n", [100, 1000, 8192, 40000])
def test_gradients_repeat_bit_by_bit(n: int) -> None:
    arguments = inputs(case_of(n, "bfloat16"), "cuda")
    dy = torch.randn_like(arguments["x"])
    first = out_and_gradients(ck.layer_norm, arguments, dy)
    for _ in range(30):
        again = out_and_gradients(ck.layer_norm, arguments, dy)
        assert all(torch.equal(again[name], first[name]) for name in first)


def test_what_is_returned_beside_y() -> None:
    arguments = inputs(case_of(2520, "bfloat16"), "cuda")
    y, total, mean, rstd = ck.layer_norm(**arguments, return_residual=True, return_stats=True)
    z = arguments["x"].double() + arguments["residual"].double()
    assert torch.equal(y, ck.layer_norm(**arguments))
    assert torch.equal(total, (arguments["x"].float() + arguments["residual"].float()).bfloat16())
    torch.testing.assert_close(mean.double(), z.mean(1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rstd.double(), (z.var(1, correction=0) + 1e-5).rsqrt(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", NORMS)
def test_inductor_gives_the_gradients_of_eager(name: str) -> None:
    """What surrounds the norm only multiplies by powers of two, so bits may not differ."""
    torch._dynamo.reset()
    arguments = inputs(case_of(1000, "bfloat16"), "cuda")

    def step(**leaves: Any) -> torch.Tensor:
        y, total = getattr(ck, name)(**leaves, return_residual=True)
        return (y * 2).float().square().sum() + total.float().sum()

    results = []
    for how in (step, torch.compile(step, fullgraph=True, dynamic=True)):
        leaves = leaves_of(arguments)
        how(**leaves).backward()
        results.append([leaf.grad for leaf in leaves.values()])
    assert all(map(torch.equal, *results))
