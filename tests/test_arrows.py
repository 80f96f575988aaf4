"""The import arrows of the package, read off its source: who may import whom, and who may import the DSL, NumPy and torch."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "cute_kernels"
OPERATORS = {path.parent.name for path in PACKAGE.glob("*/op.py")}
HOST = (
    "op",
    "prepare",
    "gradients",
    "reference",
    "cases",
    "compose",
    "formulas",
    "project",
)  # an operator's modules that deal in torch's tensors
DSL = {"cutlass", "cuda", "tvm_ffi"}

# Part -> the parts of the package its modules may import. What is missing here may import nothing.
ARROWS = {
    "plan": {"plan"},
    "tile": {"tile", "plan"},
    "device": {"device", "tile", "plan"},
    "simulator": {"simulator", "tile", "plan"},
    "study": {"study", "simulator", "plan"},
    "runtime": {"runtime", "plan", "device", "simulator"},
    "nn": {"nn", "runtime", *OPERATORS},
    "cli": {"cli", "runtime", "plan", "study", "", *OPERATORS},
    "__main__": {"cli", "runtime", "plan"},
    "": {"nn", "runtime", *OPERATORS},
    **{operator: {operator, "plan", "tile", "runtime"} for operator in OPERATORS},
}

# Part -> outside packages it keeps away from.
FORBIDDEN = {
    "plan": {"torch", "numpy", *DSL},
    "tile": {"torch", "numpy", *DSL},
    "simulator": {"torch", *DSL},
    "study": {"torch", *DSL},
    "runtime": {"numpy", "cutlass", "tvm_ffi"},
    **{operator: {"numpy", *DSL} for operator in OPERATORS},
}

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The first folder below the package; a file's own name right below it, and "" for the package's __init__."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> set[str]:
    """Dotted names of every module that a file imports, inside functions too; those only for type checkers left out."""
    names = set()
    for node in walk_running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def walk_running(node: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    found = [node]
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            found += walk_running(child)
    return found


def inside(names: set[str]) -> set[str]:
    """The parts of the package among imported names."""
    split = [name.split(".") for name in names]
    parts = {name[1] if len(name) > 1 else "" for name in split if name[0] == "cute_kernels"}
    return {part if (PACKAGE / part).is_dir() or part == "__main__" else "" for part in parts}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows(path: Path) -> None:
    part, names = part_of(path), imports(path)
    assert inside(names) <= ARROWS[part]
    assert not {name.split(".")[0] for name in names} & FORBIDDEN.get(part, set())


def test_plans_and_programs_of_operators_do_without_torch() -> None:
    pure = [path for path in FILES if part_of(path) in OPERATORS and path.stem not in HOST]
    assert pure
    assert not [path for path in pure if {name.split(".")[0] for name in imports(path)} & {"torch", "ml_dtypes"}]


def test_operators_do_not_import_one_another() -> None:
    assert {"norms", "linear_norm"} <= OPERATORS
    for path in FILES:
        if part_of(path) in OPERATORS:
            assert not inside(imports(path)) & (OPERATORS - {part_of(path)})
