"""What every operator guarantees, as a table: each rule with the tests that hold operators to it, or the reason why a cell is empty.

`make test` prints it with the tests that passed for each operator; on a GPU, `make test-gpu` prints the cells of its own tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cute_kernels.cli.catalogue import OPERATORS


@dataclass(frozen=True)
class Rule:
    """A rule, the names of the test functions behind it, and what is still missing."""

    section: str
    text: str
    tests: tuple[str, ...] = ()
    missing: str = ""


RULES = (
    Rule("inputs", "any strides, alignment, expanded", ("test_layouts_of_every_tensor", "test_expanded_rows")),
    Rule("inputs", "any leading shape", ("test_leading_shapes",)),
    Rule("inputs", "DLPack arrays", ("test_arrays_of_other_libraries", "test_arrays_that_run_backwards")),
    Rule("inputs", "zero tokens", ("test_no_tokens",)),
    Rule("inputs", "more than 2^31 elements", ("test_a_view_past_two_to_the_31_elements",), "GPU only"),
    Rule("inputs", "padding is poison", ("test_a_bad_row_stays_alone",), "jagged batches come with attention"),
    Rule("inputs", "one-line refusals", ("test_refusals_are_one_line_before_any_launch",)),
    Rule("inputs", "no usable GPU", ("test_a_cpu_tensor_outside_simulate", "test_an_unknown_architecture")),
    Rule(
        "numbers",
        "the correctness rule",
        ("test_both_generations_are_right_alike", "test_linear_norm", "test_every_length_and_dtype"),
    ),
    Rule(
        "numbers",
        "NaN stays in its row",
        ("test_a_bad_row_stays_alone", "test_a_nan_row_stays_alone", "test_bad_rows_stay_alone"),
    ),
    Rule(
        "numbers",
        "batch-invariant",
        ("test_a_row_does_not_depend_on_the_batch", "test_a_row_does_not_depend_on_its_neighbours"),
    ),
    Rule(
        "numbers",
        "bitwise repeatable",
        ("test_bits_do_not_depend_on_timing", "test_a_hundred_repeats_are_bitwise_equal"),
    ),
    Rule("autograd", "right gradients", ("test_gradients_against_float64", "test_gradients_of_every_layout")),
    Rule("autograd", "any subset", ("test_any_subset", "test_gradients_of_every_subset")),
    Rule(
        "autograd",
        "incoming gradients of any kind",
        ("test_incoming_gradients_of_any_layout_and_dtype", "test_an_incoming_gradient_in_float32"),
    ),
    Rule("autograd", "inputs are not written", ("test_inputs_are_not_written",)),
    Rule("autograd", "retain_graph twice", ("test_twice_with_retain_graph",)),
    Rule(
        "autograd",
        "what cannot be says so",
        ("test_double_backward_says_so", "test_forward_mode_says_so", "test_tangents_of_something_else_do_no_harm"),
    ),
    Rule("autograd", "no_grad, autocast", ("test_without_a_graph", "test_autocast_with_float32_weights")),
    Rule("autograd", "backward under its simulation", ("test_backward_runs_under_the_simulation_of_its_forward",)),
    Rule("torch", "opcheck", ("test_opcheck",)),
    Rule("torch", "torch.compile", ("test_compile_without_a_graph_break", "test_compile_takes_eps_as_an_input")),
    Rule(
        "torch",
        "one answer by every path",
        ("test_the_direct_path_gives_the_registered_operator_s_bits", "test_a_dispatch_mode_sees_the_operator"),
    ),
    Rule("torch", "CUDA graphs", ("test_a_captured_graph_replays_beside_another_stream",), "GPU only"),
    Rule("torch", "streams", ("test_the_launch_follows_the_current_stream",), "GPU only; several threads: no test yet"),
    Rule("torch", "devices that are not current", (), "needs a machine of two GPUs"),
    Rule(
        "compilation",
        "cache, second process",
        (),
        "not by operator: tests/runtime/test_cache.py, tests/gpu/test_carry.py",
    ),
    Rule("safety", "simulator's checks", (), "every simulated call above runs under all observers"),
    Rule("safety", "compute-sanitizer", (), "make sanitize, on a GPU"),
)

Passed = Mapping[tuple[str, str], int]  # (test function, operator, "" where a test is of none) -> tests that passed


def count(node_ids: Iterable[str]) -> dict[tuple[str, str], int]:
    """How many of the passed tests belong to each function and operator."""
    found: dict[tuple[str, str], int] = {}
    for node_id in node_ids:
        function, _, parameters = node_id.rpartition("::")[2].partition("[")
        operator = next((name for name in OPERATORS if name in parameters.rstrip("]").split("-")), "")
        found[function, operator] = found.get((function, operator), 0) + 1
    return found


def table(passed: Passed) -> list[str]:
    """A line a rule: tests passed for each operator; "all" counts those that are of no single operator."""
    names = [*OPERATORS, ""]
    widths = [max(len(name), len("all")) + 2 for name in names]
    head = "".join(f"{name or 'all':>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"{'contract':46}{head}"]
    for rule in RULES:
        cells = [sum(passed.get((test, name), 0) for test in rule.tests) for name in names]
        shown = "".join(f"{cell or '·':>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{rule.section + ': ' + rule.text:46}{shown}  {rule.missing}".rstrip())
    return lines
