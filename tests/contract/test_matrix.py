"""The table of the contract is whole: every test of the contract stands behind a rule, and no rule is empty without a reason."""

import ast
import pathlib

from cute_kernels.cli.catalogue import OPERATORS
from tests.contract.matrix import RULES, count, table

TESTS = pathlib.Path(__file__).resolve().parents[1]


def functions(folder: str) -> dict[str, set[str]]:
    """The test functions below a folder, and the names of their arguments."""
    paths = [path for path in (TESTS / folder).rglob("test_*.py") if path.name != "test_matrix.py"]
    found: dict[str, set[str]] = {}
    for node in (node for path in paths for node in ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.setdefault(node.name, set()).update(argument.arg for argument in node.args.args)
    return found


def test_every_test_of_the_contract_stands_behind_a_rule() -> None:
    assert functions("contract").keys() <= {test for rule in RULES for test in rule.tests}


def test_every_rule_names_tests_that_exist() -> None:
    there = functions(".").keys()
    for rule in RULES:
        assert set(rule.tests) <= there, rule


def test_no_cell_is_empty_without_a_reason() -> None:
    """A line without a reason has a test that takes every operator in turn."""
    there = functions("contract") | functions("runtime")
    for rule in RULES:
        assert rule.empty or any({"call", "operator"} & there.get(test, set()) for test in rule.tests), rule


def test_counting() -> None:
    ids = [
        "tests/contract/test_a.py::test_opcheck[rms_norm-True]",
        "a.py::test_opcheck[False-rms_norm]",
        "a.py::test_opcheck",
        "tests/gpu/test_operators.py::test_linear_norm[130x64x512-float16]",
        "tests/linear_norm/test_linear_norm.py::test_cases[sm_90a-1x8x64]",
    ]
    passed = count(ids)
    assert passed == {
        ("test_opcheck", "rms_norm"): 2,
        ("test_opcheck", ""): 1,
        ("test_linear_norm", "linear_norm"): 1,
        ("test_cases", "linear_norm"): 1,
    }
    (line,) = [line for line in table(passed) if "opcheck" in line]
    cells = {name: line.split()[-len(OPERATORS) - 1 :][i] for i, name in enumerate([*OPERATORS, ""])}
    assert cells == {**dict.fromkeys(OPERATORS, "·"), "rms_norm": "2", "": "1"}
