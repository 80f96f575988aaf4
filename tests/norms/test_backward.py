"""Gradients of the norms by the fused backward, against float64 autograd, and how it is called."""

import itertools
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.norms import gradients
from cute_kernels.norms.cases import CASES, LONG, Case, inputs
from cute_kernels.norms.plan import NormBackward
from cute_kernels.runtime.accuracy import measure

NORMS = ("rms_norm", "layer_norm")
EVERYTHING = Case(37, 200, "bfloat16", "float32", 0.5, "bfloat16", residual=True)
Arguments = dict[str, Any]


def leaves_of(arguments: Arguments, dtype: torch.dtype | None = None) -> Arguments:
    """The tensors among the arguments, as leaves of a graph."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    return {name: value.detach().to(dtype or value.dtype).requires_grad_() for name, value in tensors.items()}


def gradients_of(how: Any, arguments: Arguments, dy: torch.Tensor, dtype: torch.dtype | None = None) -> Arguments:
    leaves = leaves_of(arguments, dtype)
    out = how(**{**arguments, **leaves})
    return dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), dy.to(out.dtype)), strict=True))


def assert_right(name: str, case: Case, arch: str = "sm_90a") -> Any:
    """Every gradient under the rule; the simulation."""
    arguments, operator = inputs(case), OPERATORS[name]
    dy = torch.randn(case.m, case.n, generator=torch.Generator().manual_seed(1)).to(arguments["x"].dtype)
    with cute_kernels.simulate(arch) as simulation:
        found = gradients_of(operator.call, arguments, dy)
    exact = gradients_of(operator.reference, arguments, dy, torch.float64)
    yardstick = gradients_of(operator.yardstick, arguments, dy, torch.float32)
    for tensor, value in found.items():
        accuracy = measure(value, exact[tensor], yardstick[tensor].to(value.dtype))
        assert accuracy.right, f"{tensor}: {accuracy}"
    return simulation


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("case", [*CASES, LONG[1]], ids=str)
def test_cases(name: str, case: Case) -> None:
    simulation = assert_right(name, case)
    assert [plan.operator for plan in simulation.plans] == ["norm", "norm_backward"]


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("case", [EVERYTHING, CASES[7]], ids=str)
def test_blackwell(name: str, case: Case) -> None:
    assert_right(name, case, "sm_100a")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("mean", [10.0, 1e3, 1e4])
def test_a_mean_that_dwarfs_the_deviation(dtype: str, mean: float) -> None:
    assert_right("layer_norm", Case(70, 100, dtype, "float32", bias="float32", mean=mean))


@pytest.mark.parametrize("name", NORMS)
def test_clusters_out_of_short_rows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(gradients, "NormBackward", lambda **facts: NormBackward(**facts, row=64))
    simulation = assert_right(name, EVERYTHING)
    assert simulation.plans[1].cluster == 4
    assert simulation.reports[1].dsmem_bytes


@pytest.mark.parametrize("name", NORMS)
def test_many_rows_a_cluster(name: str) -> None:
    simulation = assert_right(name, Case(1001, 40, "float32", "float32", bias="float32"))
    assert simulation.plans[1].persistent
    assert simulation.reports[1].blocks < 1001 // simulation.plans[1].rows


def test_traffic_is_what_the_schedule_says() -> None:
    m, n = 1000, 96
    simulation = assert_right("layer_norm", Case(m, n, "bfloat16", "bfloat16", bias="bfloat16", residual=True))
    plan, report = simulation.plans[1], simulation.reports[1]
    clusters = report.blocks // plan.cluster
    assert report.bytes_written == 2 * m * n + 2 * 4 * clusters * n  # dx, and two rows of partial sums a cluster
    tiles = -(-m // plan.rows)
    assert (
        report.bytes_read == 2 * 3 * m * n + 2 * clusters * n + 2 * 4 * tiles * plan.rows
    )  # x, residual, dy; weight; both statistics


@pytest.mark.parametrize(
    "asked", [a for n in range(1, 5) for a in itertools.combinations(("x", "residual", "weight", "bias"), n)]
)
def test_only_what_is_asked_for_is_computed(asked: tuple[str, ...]) -> None:
    arguments = inputs(EVERYTHING)
    leaves = {name: value.requires_grad_(name in asked) for name, value in leaves_of(arguments).items()}
    with cute_kernels.simulate() as simulation:
        out = cute_kernels.layer_norm(**{**arguments, **leaves})
        out.backward(torch.ones_like(out))
    assert [name for name in leaves if leaves[name].grad is not None] == [n for n in leaves if n in asked]
    problems = [plan.problem for plan in simulation.plans[1:]]
    if asked == ("bias",):
        assert not problems
        return
    (problem,) = problems
    assert problem.dx == bool({"x", "residual"} & {*asked})
    assert (problem.dweight, problem.dbias) == ("weight" in asked, "bias" in asked)
    assert ("weight" in [t.name for t in simulation.plans[1].tensors]) == problem.dx


# The returned sum takes part in the graph


def test_gradient_of_the_returned_sum() -> None:
    arguments, operator = inputs(EVERYTHING), OPERATORS["rms_norm"]
    dy, dsum = torch.randn(2, 37, 200).bfloat16()
    leaves, wide = leaves_of(arguments), leaves_of(arguments, torch.float64)
    with cute_kernels.simulate():
        outs = operator.call(**{**arguments, **leaves}, return_residual=True)
        found = torch.autograd.grad(outs, list(leaves.values()), [dy, dsum])
    exact_outs = operator.reference(**{**arguments, **wide}), wide["x"] + wide["residual"]
    exact = torch.autograd.grad(exact_outs, list(wide.values()), [dy.double(), dsum.double()])
    for one, other in zip(found, exact, strict=True):
        assert (one.double() - other).norm() <= 4e-3 * other.norm()


@pytest.mark.parametrize("name", NORMS)
def test_only_y_or_only_the_sum_used(name: str) -> None:
    arguments, operator = inputs(EVERYTHING), OPERATORS[name]
    dy = torch.randn(37, 200).bfloat16()
    with cute_kernels.simulate():
        expected = gradients_of(operator.call, arguments, dy)
        found = gradients_of(lambda **a: operator.call(**a, return_residual=True)[0], arguments, dy)
        assert all(torch.equal(found[tensor], expected[tensor]) for tensor in found)
        found = gradients_of(lambda **a: operator.call(**a, return_residual=True)[1], arguments, dy)
    assert torch.equal(found["x"], dy)
    assert torch.equal(found["residual"], dy)
    assert not found["weight"].any()
    assert not found["bias"].any()


def test_statistics_are_not_differentiated() -> None:
    x = torch.randn(3, 16, requires_grad=True)
    with cute_kernels.simulate():
        y, mean, rstd = cute_kernels.layer_norm(x, return_stats=True)
    assert y.requires_grad
    assert not mean.requires_grad
    assert not rstd.requires_grad


@pytest.mark.parametrize("name", NORMS)
def test_no_rows(name: str) -> None:
    arguments = inputs(EVERYTHING)
    arguments |= {tensor: arguments[tensor][:0] for tensor in ("x", "residual")}
    with cute_kernels.simulate() as simulation:
        found = gradients_of(OPERATORS[name].call, arguments, torch.empty(0, 200))
    assert not simulation.reports
    assert all(torch.equal(value, torch.zeros_like(arguments[tensor])) for tensor, value in found.items())


def test_a_bad_row_stays_alone() -> None:
    arguments = inputs(EVERYTHING)
    dy = torch.randn(37, 200).bfloat16()
    with cute_kernels.simulate():
        clean = gradients_of(cute_kernels.layer_norm, arguments, dy)["x"]
        arguments["x"][5, 3] = torch.nan
        found = gradients_of(cute_kernels.layer_norm, arguments, dy)["x"]
    assert found[5].isnan().all()
    assert torch.equal(torch.cat([found[:5], found[6:]]), torch.cat([clean[:5], clean[6:]]))


# The registered operators


def test_the_forward_keeps_no_sum_and_no_output() -> None:
    arguments = inputs(EVERYTHING)
    leaves, kept = leaves_of(arguments), []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with (
        cute_kernels.simulate(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t),
    ):
        cute_kernels.layer_norm(**{**arguments, **leaves}, return_residual=True)
    rows = [tensor for tensor in kept if tensor.shape == leaves["x"].shape]
    assert {tensor.data_ptr() for tensor in rows} == {leaves["x"].data_ptr(), leaves["residual"].data_ptr()}
    assert len(rows) == 2


def test_the_operator_called_by_itself_makes_up_for_statistics_it_was_not_asked_for() -> None:
    x, weight = torch.randn(5, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    with cute_kernels.simulate():
        expected = torch.autograd.grad(cute_kernels.layer_norm(x, weight).sum(), (x, weight))
        y, *_ = torch.ops.cute_kernels.layer_norm(x, None, weight, None, 0.0, 1e-5, False, False)
        found = torch.autograd.grad(y.sum(), (x, weight))
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("wants", [w for w in itertools.product([False, True], repeat=3) if any(w)])
def test_opcheck_of_the_backward(wants: tuple[bool, ...]) -> None:
    x, dy = torch.randn(2, 5, 32)
    stats = torch.stack([x.var(1, correction=0).rsqrt(), x.mean(1)])
    arguments = (x, None, dy, dy if wants[0] else None, torch.randn(32), stats, 0.5, list(wants))
    with cute_kernels.simulate():
        results = torch.library.opcheck(torch.ops.cute_kernels.norm_backward.default, arguments)
    assert set(results.values()) == {"SUCCESS"}


def test_torch_compile_traces_the_backward() -> None:
    torch._dynamo.reset()
    arguments, graphs = inputs(EVERYTHING), []

    def look(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def step(**leaves: Any) -> torch.Tensor:
        y, total = cute_kernels.layer_norm(**leaves, return_residual=True)
        return (y.float() * total.float()).sum()

    results = []
    for how in (step, torch.compile(step, fullgraph=True, backend=aot_autograd(fw_compiler=look, bw_compiler=look))):
        leaves = leaves_of(arguments)
        with cute_kernels.simulate():
            value = how(**leaves)
            value.backward()
        results.append([value, *(leaf.grad for leaf in leaves.values())])
    assert all(map(torch.equal, *results))
    called = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert sum("cute_kernels.norm_backward" in name for name in called) == 1
