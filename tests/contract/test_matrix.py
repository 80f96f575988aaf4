"""The table of the contract is whole: every test of the contract stands behind a rule, and no rule is empty without a reason."""

import ast
import pathlib

from cute_kernels.cli.catalogue import OPERATORS
from tests.contract.matrix import RULES, count, table

TESTS = pathlib.Path(__file__).resolve().parents[1]


def functions(folder: str) -> set[str]:
    """The test functions of a folder."""
    trees = [
        ast.parse(path.read_text()) for path in (TESTS / folder).glob("test_*.py") if path.name != "test_matrix.py"
    ]
    return {
        n.name for tree in trees for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")
    }


def test_every_test_of_the_contract_stands_behind_a_rule() -> None:
    assert functions("contract") <= {test for rule in RULES for test in rule.tests}


def test_every_rule_names_tests_that_exist_or_says_why_there_are_none() -> None:
    there = functions("contract") | functions("gpu")
    for rule in RULES:
        assert set(rule.tests) <= there, rule
        assert rule.tests or rule.missing, rule


def test_cells_without_a_reason_need_no_gpu() -> None:
    for rule in RULES:
        assert rule.missing or set(rule.tests) & functions("contract"), rule


def test_counting() -> None:
    ids = [
        "tests/contract/test_a.py::test_opcheck[rms_norm-True]",
        "a.py::test_opcheck[False-rms_norm]",
        "a.py::test_opcheck",
    ]
    passed = count(ids)
    assert passed == {("test_opcheck", "rms_norm"): 2, ("test_opcheck", ""): 1}
    (line,) = [line for line in table(passed) if "opcheck" in line]
    assert line.split()[-len(OPERATORS) - 1 :] == ["2", *["·"] * (len(OPERATORS) - 1), "1"]
