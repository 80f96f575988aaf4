"""linear_norm on the GPU under the correctness rule; and of every operator what only a GPU can show: repeats, graphs, streams, many rows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.linear_norm import cases as linear_norm_cases
from cute_kernels.linear_norm import reference as linear_norm_reference
from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms import cases as norms_cases
from cute_kernels.plan import SM90A
from cute_kernels.runtime.accuracy import measure
from cute_kernels.runtime.launch import execute
from perf.rule import gradients_of

Arguments = dict[str, Any]
ROWS = 8192  # compared at a time: float64 products of a quarter of a million rows outgrow patience, not memory


@pytest.fixture(autouse=True)
def poisoned_outputs() -> Any:
    """torch.empty gives NaN: an element that a kernel does not write shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    yield
    torch.use_deterministic_algorithms(False)


Linear = linear_norm_cases.Case
COLUMNS = (8, 24, 128, 256, 512, 520, 768, 1024, 2048, 3000, 3072, 4096)
OPTIONS: dict[str, Arguments] = {
    "plain": {},
    "affine": {"norm": "layer", **linear_norm_cases.AFFINE},
    "everything": {"norm": "layer", "bias": "bfloat16", "residual": True, **linear_norm_cases.AFFINE},
    "rms everything": {"bias": "float32", "residual": True, **linear_norm_cases.AFFINE},
    "mean": {"norm": "layer", "bias": "float32", "mean": 1e4},
}
ALONE = (*linear_norm_cases.CASES, *linear_norm_cases.SPEED)  # y and nothing else
WITH_EXTRAS = (
    *linear_norm_cases.CASES,
    *(Linear(1000, k, n, norm="layer") for n in COLUMNS for k in (8, 64, 520)),
    *(Linear(1000, 2048, n) for n in COLUMNS),
    *(Linear(m, 520, 512, **options) for m in (1, 127, 8193) for options in OPTIONS.values()),
    *(Linear(1000, 64, n, "bfloat16", **options) for n in (24, 520, 1024, 3000) for options in OPTIONS.values()),
    *(Linear(1000, 64, n, "float16", norm) for n in (512, 2048) for norm in ("rms", "layer")),
    Linear(262144, 64, 512, **OPTIONS["everything"]),
)


@pytest.mark.parametrize(
    ("case", "returned"), [*((c, False) for c in ALONE), *((c, True) for c in WITH_EXTRAS)], ids=str
)
def test_linear_norm(case: linear_norm_cases.Case, returned: bool) -> None:
    """Every row is written; and slice by slice of rows: the first, the last, and one in the middle of many."""
    arguments: Arguments = linear_norm_cases.inputs(case, "cuda")
    more: Arguments = {"return_z": returned, "return_stats": returned}
    found = ck.linear_norm(**arguments, **more)
    check_rows(found if returned else (found,), arguments, more)


def check_rows(found: tuple[torch.Tensor | None, ...], arguments: Arguments, more: Arguments) -> None:
    """y and z under the rule, statistics to float32's accuracy beside rows of size 1."""
    m = arguments["x"].shape[0]
    assert all(value is None or value.isfinite().all() for value in found)
    for start in sorted({0, m // 2, max(0, m - ROWS)}):
        rows = slice(start, start + ROWS)
        part = arguments | {name: arguments[name][rows] for name in ("x", "residual") if name in arguments}
        exact, yardstick = (
            results if isinstance(results, tuple) else (results,)
            for results in (
                linear_norm_reference.linear_norm(**part, **more),
                linear_norm_reference.linear_norm_yardstick(**part, **more),
            )
        )
        for ours, reals, chain in zip(found, exact, yardstick, strict=True):
            if ours is None:
                assert reals is None
            elif ours.dtype is torch.float32:
                torch.testing.assert_close(ours[rows].double(), reals, rtol=5e-5, atol=2e-6)
            else:
                accuracy = measure(ours[rows], reals, chain)
                assert accuracy.right, accuracy


TILINGS = {
    "shared": Tiling(multicast=True),
    **{f"{turns} turns": Tiling(turns=turns, columns_most=128) for turns in (2, 3, 4)},
    "3 turns, shared": Tiling(turns=3, columns_most=128, multicast=True),
}


@pytest.mark.parametrize("options", ["plain", "everything"])
@pytest.mark.parametrize("how", TILINGS)
@pytest.mark.parametrize(("k", "n"), [(8, 64), (200, 128), (512, 256), (512, 512), (504, 480), (256, 1024)])
def test_linear_norm_by_schedules_that_no_call_takes(k: int, n: int, how: str, options: str) -> None:
    """Consumers in turn, x loaded by the CTAs for each other: right, and the same bits again and again, on few tiles and on many."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a schedule of Hopper")
    for m in (1, 129, 20000):
        case = Linear(m, k, n, **OPTIONS[options])
        arguments: Arguments = linear_norm_cases.inputs(case, "cuda")
        vectors = {f"{name}_dtype": getattr(case, name) for name in linear_norm_cases.VECTORS}
        eps = 1e-5 if case.norm == "layer" else 1e-6
        problem = LinearNorm(k, n, case.dtype, case.norm, eps, **vectors, residual=case.residual, tiling=TILINGS[how])
        kernel = plan_linear_norm(problem, SM90A)
        y = torch.full((m, n), torch.nan, device="cuda", dtype=torch.bfloat16)
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)} | {"y": y}
        execute(kernel, tensors)
        check_rows((y,), arguments, {})
        first = y.clone()
        for _ in range(20):
            y.fill_(torch.nan)
            execute(kernel, tensors)
            assert torch.equal(y, first)


def layer_norm_dx(x: torch.Tensor, **parameters: Any) -> torch.Tensor:
    """dx of layer_norm, dy being x."""
    leaf = x.detach().requires_grad_()
    (dx,) = torch.autograd.grad(ck.layer_norm(leaf, **parameters), leaf, x)
    return dx


LAYER = norms_cases.Case(1000, 1000, weight="float32", bias="bfloat16")
CALLS: dict[str, Callable[[], tuple[Callable[..., torch.Tensor], Arguments]]] = {
    "rms_norm": lambda: (ck.rms_norm, norms_cases.inputs(norms_cases.Case(1000, 4096, weight="float32"), "cuda")),
    "rms_norm-cluster": lambda: (ck.rms_norm, norms_cases.inputs(norms_cases.Case(300, 40000), "cuda")),
    "layer_norm": lambda: (ck.layer_norm, norms_cases.inputs(LAYER, "cuda")),
    "layer_norm-dx": lambda: (layer_norm_dx, norms_cases.inputs(LAYER, "cuda")),
    "layer_norm-dx-cluster": lambda: (layer_norm_dx, norms_cases.inputs(norms_cases.Case(300, 20000), "cuda")),
    "linear_norm": lambda: (ck.linear_norm, linear_norm_cases.inputs(linear_norm_cases.Case(8193, 512, 512), "cuda")),
    "linear_norm-everything": lambda: (
        ck.linear_norm,
        linear_norm_cases.inputs(
            Linear(8193, 512, 520, norm="layer", bias="bfloat16", **linear_norm_cases.AFFINE), "cuda"
        ),
    ),
    "linear_norm-cluster8": lambda: (
        ck.linear_norm,
        linear_norm_cases.inputs(linear_norm_cases.Case(8193, 128, 2048), "cuda"),
    ),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Callable[[], torch.Tensor]:
    operator, arguments = CALLS[request.param]()
    return lambda: operator(**arguments)


def test_a_hundred_repeats_are_bitwise_equal(call: Callable[[], torch.Tensor]) -> None:
    first = call()
    assert all(torch.equal(call(), first) for _ in range(100))


def test_a_captured_graph_replays_beside_another_stream(call: Callable[[], torch.Tensor]) -> None:
    expected, other = call(), torch.randn(4096, 4096, device="cuda")
    torch.use_deterministic_algorithms(False)  # no fills within the capture
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        y = call()
    for _ in range(50):
        y.fill_(torch.nan)
        with torch.cuda.stream(side):
            other = other @ other * 1e-3
        graph.replay()
        assert torch.equal(y, expected)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    for operator, arguments in (make() for make in CALLS.values()):
        alone = operator(**{**arguments, "x": arguments["x"][7:8]})
        assert torch.equal(operator(**arguments)[7:8], alone)


def test_a_nan_row_stays_alone() -> None:
    for operator, arguments in (make() for make in CALLS.values()):
        clean = operator(**arguments)
        spoiled = arguments["x"].clone()
        spoiled[5, 3] = torch.nan
        y = operator(**{**arguments, "x": spoiled})
        assert y[5].isnan().all()
        assert torch.equal(torch.cat([y[:5], y[6:]]), torch.cat([clean[:5], clean[6:]]))


def test_the_launch_follows_the_current_stream() -> None:
    x = torch.randn(4096, 1024, device="cuda")
    late, stream = torch.empty_like(x), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        late.copy_(x)
        y = ck.rms_norm(late)
    stream.synchronize()
    torch.testing.assert_close(y, ck.rms_norm(x), rtol=0, atol=0)


def test_a_view_past_two_to_the_31_elements() -> None:
    rows, pitch = 70000, 32768
    wide = torch.empty(rows, pitch, device="cuda", dtype=torch.bfloat16)
    x = wide[:, 8:520]
    x.copy_(torch.randn(rows, 512, device="cuda"))
    assert torch.equal(ck.rms_norm(x), ck.rms_norm(x.contiguous()))
    weight = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(ck.linear_norm(x, weight, norm="rms"), ck.linear_norm(x.contiguous(), weight, norm="rms"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("options", ["plain", "everything", "rms everything"])
def test_gradients_of_linear_norm(dtype: str, options: str) -> None:
    """Under the rule of the forward, against float64 autograd."""
    halves = {name: dtype for name, value in OPTIONS[options].items() if value == "bfloat16"}
    arguments: Arguments = linear_norm_cases.inputs(Linear(300, 128, 512, dtype, **OPTIONS[options] | halves), "cuda")
    dy = torch.randn(300, 512, device="cuda").to(arguments["x"].dtype)
    torch.use_deterministic_algorithms(False)  # cuBLAS asks for a workspace setting
    found = gradients_of(ck.linear_norm, arguments, dy)
    exact = gradients_of(linear_norm_reference.linear_norm, arguments, dy, torch.float64)
    yardstick = gradients_of(linear_norm_reference.linear_norm_yardstick, arguments, dy, torch.float32)
    for name, value in found.items():
        accuracy = measure(value, exact[name], yardstick[name].to(value.dtype))
        assert accuracy.right, f"{name}: {accuracy}"
