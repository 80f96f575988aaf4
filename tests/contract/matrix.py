"""What every operator guarantees, as a table: each rule with the tests that hold operators to it, and the reason why a cell is empty.

`make test` prints it with the tests that passed for each operator; on a GPU, `make test-gpu` prints the cells of its own tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cute_kernels.cli.catalogue import OPERATORS

GPU = "only a GPU can show it"
LATER = "no operator with segments yet"
RUNTIME = "of the runtime, whichever operator"


@dataclass(frozen=True)
class Rule:
    """A sentence of the contract, the names of the test functions behind it, and why cells of its line are empty."""

    section: str
    text: str
    tests: tuple[str, ...] = ()
    empty: str = ""


RULES = (
    Rule(
        "inputs",
        "any strides, alignment, expanded",
        (
            "test_layouts_of_every_tensor",
            "test_expanded_rows",
            "test_expanded_columns",
            "test_used_in_place",
            "test_copied",
        ),
    ),
    Rule("inputs", "strides of extents of 1", ("test_strides_of_a_single_row_mean_nothing",)),
    Rule("inputs", "any leading shape", ("test_leading_shapes",)),
    Rule("inputs", "DLPack arrays", ("test_arrays_of_other_libraries", "test_arrays_that_run_backwards")),
    Rule("inputs", "parameters", ("test_parameters",)),
    Rule("inputs", "zero tokens", ("test_no_tokens", "test_no_tokens_leave_no_error_behind")),
    Rule("inputs", "empty segments, rows past the last", (), LATER),
    Rule("inputs", "more than 2^31 elements", ("test_a_view_past_two_to_the_31_elements",), GPU),
    Rule("inputs", "more rows than a grid's y holds", ("test_more_rows_than_a_grid_s_y_holds",), GPU),
    Rule("inputs", "padding is poison", ("test_layouts_of_every_tensor", "test_a_bad_row_stays_alone")),
    Rule(
        "inputs",
        "one-line refusals",
        ("test_refusals_are_one_line_before_any_launch", "test_rows_wider_than_any_cluster", "test_refusals"),
    ),
    Rule("inputs", "offsets that do not ascend", (), LATER),
    Rule(
        "inputs",
        "no usable GPU",
        (
            "test_a_cpu_tensor_outside_simulate",
            "test_an_unknown_architecture",
            "test_an_unsupported_gpu",
            "test_obstacles",
        ),
    ),
    Rule(
        "numbers",
        "the correctness rule",
        ("test_both_generations_are_right_alike", "test_cases", "test_linear_norm", "test_every_length_and_dtype"),
    ),
    Rule(
        "numbers",
        "variance without cancellation",
        ("test_rows_with_a_large_mean", "test_constant_rows", "test_a_large_mean_costs_no_accuracy"),
    ),
    Rule("numbers", "eps inside the root", ("test_eps_is_inside_the_root",), "where an operator has none"),
    Rule("numbers", "fp16 ranges", ("test_float16_sums_do_not_overflow",)),
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
        (
            "test_bits_do_not_depend_on_timing",
            "test_a_hundred_repeats_are_bitwise_equal",
            "test_gradients_repeat_bit_by_bit",
        ),
    ),
    Rule("autograd", "right gradients", ("test_gradients_against_float64", "test_gradients_of_every_layout")),
    Rule("autograd", "any subset", ("test_any_subset", "test_gradients_of_every_subset")),
    Rule("autograd", "no work that nobody asked", ("test_no_work_for_gradients_that_nobody_asked",)),
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
    Rule(
        "autograd", "no_grad, inference_mode, autocast", ("test_without_a_graph", "test_autocast_with_float32_weights")
    ),
    Rule("autograd", "backward under its simulation", ("test_backward_runs_under_the_simulation_of_its_forward",)),
    Rule("torch", "opcheck", ("test_opcheck",)),
    Rule(
        "torch",
        "torch.compile",
        (
            "test_compile_without_a_graph_break",
            "test_compile_takes_eps_as_an_input",
            "test_inductor_gives_the_gradients_of_eager",
            "test_inductor_gives_the_bits_of_eager",
        ),
    ),
    Rule(
        "torch",
        "one answer by every path",
        ("test_the_direct_path_gives_the_registered_operator_s_bits", "test_a_dispatch_mode_sees_the_operator"),
    ),
    Rule("torch", "CUDA graphs", ("test_a_captured_graph_replays_beside_another_stream",), GPU),
    Rule(
        "torch",
        "first call inside a capture",
        ("test_the_first_call_inside_a_capture_says_what_to_do",),
        RUNTIME,
    ),
    Rule("torch", "streams", ("test_the_launch_follows_the_current_stream",), GPU),
    Rule(
        "torch",
        "threads",
        (
            "test_threads_do_not_disturb_each_other",
            "test_a_simulation_holds_for_its_thread_alone",
            "test_threads_on_streams_of_their_own",
        ),
    ),
    Rule(
        "torch",
        "devices that are not current",
        ("test_a_launch_goes_to_the_device_of_its_tensors", "test_a_device_that_is_not_current"),
    ),
    Rule("torch", "importing: no context, fork", ("test_importing_survives_a_fork", "test_import_is_light")),
    Rule("compilation", "one kernel for any token count", ("test_one_kernel_for_any_number_of_tokens",)),
    Rule("compilation", "no caller's tensor kept alive", ("test_nothing_keeps_a_caller_s_tensor_alive",)),
    Rule("compilation", "what is kept is bounded", ("test_kernels_in_memory_are_bounded",), RUNTIME),
    Rule(
        "compilation",
        "cache keys",
        (
            "test_every_operator_s_plans_have_a_key",
            "test_every_field_that_tells_plans_apart_is_in_the_text",
            "test_another_plan_is_another_key",
            "test_another_toolchain_is_another_key",
            "test_an_edited_source_is_another_key",
            "test_flags_that_change_code_are_in_the_toolchain",
        ),
    ),
    Rule(
        "compilation",
        "cache: damage, full disk, no disk",
        (
            "test_a_damaged_file_is_missing_and_written_anew",
            "test_a_damaged_kernel_is_compiled_again",
            "test_a_kernel_that_does_not_load_here_is_compiled_again",
            "test_on_a_full_disk_kernels_live_in_memory",
            "test_a_read_only_folder_still_serves_what_it_has",
            "test_a_folder_that_cannot_be_made",
        ),
        RUNTIME,
    ),
    Rule(
        "compilation",
        "cache: processes, killed writers",
        (
            "test_processes_started_together_compile_once",
            "test_a_killed_writer_leaves_nothing_that_is_read_and_no_lock",
        ),
        RUNTIME,
    ),
    Rule(
        "compilation",
        "cache: threads",
        (
            "test_threads_that_ask_at_once_get_one_kernel",
            "test_threads_with_kernels_of_their_own_compile_and_keep_each_once",
            "test_threads_that_write_and_read_find_whole_kernels_only",
            "test_threads_of_which_one_clears_do_no_harm",
            "test_threads_that_compile_at_once",
        ),
        RUNTIME,
    ),
    Rule("compilation", "cache: listed and cleared", ("test_cache_lists_and_clears",), RUNTIME),
    Rule(
        "compilation",
        "a second process within a second",
        (
            "test_a_later_process_loads_within_a_second_and_without_the_compiler",
            "test_packed_kernels_run_without_the_compiler",
        ),
        RUNTIME,
    ),
    Rule("safety", "simulator's checks", (), "every simulated call above runs under all observers"),
    Rule(
        "safety",
        "compute-sanitizer",
        ("test_the_calls_run_every_operator_forward_and_backward",),
        "the calls of all operators in one; `make sanitize` runs them on a GPU under the tools",
    ),
)

Passed = Mapping[tuple[str, str], int]  # (test function, operator, "" where a test is of none) -> tests that passed


def count(node_ids: Iterable[str]) -> dict[tuple[str, str], int]:
    """How many of the passed tests belong to each function and operator, which parameters, function or folder name."""
    found: dict[tuple[str, str], int] = {}
    for node_id in node_ids:
        path, _, name = node_id.rpartition("::")
        function, _, parameters = name.partition("[")
        words = {*parameters.rstrip("]").split("-"), function.removeprefix("test_"), *path.split("/")}
        operator = next((name for name in OPERATORS if name in words), "")
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
        lines.append(f"{rule.section + ': ' + rule.text:46}{shown}  {rule.empty}".rstrip())
    return lines
