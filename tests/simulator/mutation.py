"""Mutants of role programs, to test the observers with: a program built anew from its source with one thing altered.

A missing wait is the fault a kernel's author makes. Whoever takes a call away must be told by the simulator, or be able
to say why the call was not needed. Nothing here runs a program; tests do.
"""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

PACKAGE = "cute_kernels"  # whose programs are altered

# The verbs that order accesses. Taking one away alters when and where bytes are touched, not what is computed of them.
ORDERING = frozenset(
    "acquire wait release release_after_mma publish publish_after_mma drain free advance skip".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Site:
    """A call of an ordering verb, named by what stays when lines move.

    function  where it stands: module and name of the program or of a helper it reaches
    text      the statement (of a return: the call)
    number    which of the statements of this text in the function, from 1
    """

    function: str
    text: str
    number: int
    verb: str


class Source:
    """A program and the functions of the package that it reaches, each to be had as a fresh syntax tree."""

    def __init__(self, program: Callable[..., Any]) -> None:
        self.program = plain(program)
        self.functions: dict[str, FunctionType] = {}
        self.gather(self.program)

    def gather(self, function: FunctionType) -> None:
        """Note a function and, in the order in which it names them, its helpers."""
        if name_of(function) not in self.functions:
            self.functions[name_of(function)] = function
            for node in ast.walk(parse(function)):
                if helper := helper_at(node, function):
                    self.gather(helper)

    @property
    def sites(self) -> list[Site]:
        """The calls of ordering verbs, function by function, in the order of the text."""
        found = []
        for name, function in self.functions.items():
            seen: Counter[str] = Counter()
            for statement, call in calls(parse(function)):
                text = text_of(function, call if isinstance(statement, ast.Return) else statement)
                seen[text] += 1
                found.append(Site(name, text, seen[text], call.func.attr))  # type: ignore[attr-defined]
        return found

    def without(self, site: Site) -> Callable[[Any], None]:
        """The program without that call. An advance or skip that is taken away leaves the slot as it is."""
        function = self.functions[site.function]
        tree = parse(function)
        place = [s for s in self.sites if s.function == site.function].index(site)
        _, call = list(calls(tree))[place]
        return self.build({site.function: Remove(call).visit(tree)})

    def edited(self, old: str, new: str, function: str = "") -> Callable[[Any], None]:
        """The program with a piece of text, which must occur once, replaced in it or in the helper named."""
        name = next(n for n in self.functions if n.endswith(f".{function}")) if function else name_of(self.program)
        text = source(self.functions[name])
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times in {name}")
        return self.build({name: parse(self.functions[name], text.replace(old, new))})

    def build(self, altered: dict[str, ast.FunctionDef]) -> Callable[[Any], None]:
        """The program from its trees. Each function calls the others' new forms and finds the rest as before."""
        aliases = {name: f"_rebuilt_{i}" for i, name in enumerate(self.functions)}
        scopes = {name: dict(function.__globals__) for name, function in self.functions.items()}
        built = {}
        for name, function in self.functions.items():
            tree = Redirect(function, aliases).visit(altered.get(name) or parse(function))
            module = ast.fix_missing_locations(ast.Module([tree], []))
            exec(compile(module, function.__code__.co_filename, "exec"), scopes[name])
            built[aliases[name]] = scopes[name][tree.name]
        for scope in scopes.values():
            scope.update(built)
        program: Callable[[Any], None] = built[aliases[name_of(self.program)]]
        return program


class Remove(ast.NodeTransformer):
    """Takes one call out of a tree."""

    def __init__(self, call: ast.Call) -> None:
        self.call = call

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if node.value is self.call else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node.args[0] if node is self.call else self.generic_visit(node)


class Redirect(ast.NodeTransformer):
    """Makes a function name its helpers by aliases, however it named them."""

    def __init__(self, function: FunctionType, aliases: dict[str, str]) -> None:
        self.function, self.aliases = function, aliases

    def visit(self, node: ast.AST) -> Any:
        helper = helper_at(node, self.function)
        if helper is None:
            return self.generic_visit(node)
        return ast.copy_location(ast.Name(self.aliases[name_of(helper)], ast.Load()), node)


def calls(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The calls of ordering verbs with the statements they stand in, in the order of the text."""
    for statement in statements(tree):
        for node in expressions(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ORDERING:
                if node.func.attr not in ("advance", "skip") and not (
                    isinstance(statement, ast.Expr) and statement.value is node
                ):
                    raise ValueError(f"{ast.unparse(statement)}: {node.func.attr} gives nothing, so it stands alone")
                yield statement, node


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All of them inside a node, in the order of the text."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child)


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement says itself, without the statements inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield child
            yield from expressions(child)


def helper_at(node: ast.AST, function: FunctionType) -> FunctionType | None:
    """The function of the package that an expression names by way of the globals, if it does."""
    thing = plain(resolve(node, function))
    inside = isinstance(thing, FunctionType) and thing.__module__.startswith(f"{PACKAGE}.")
    return thing if inside else None


def resolve(node: ast.AST, function: FunctionType) -> Any:
    """What a name, or a name in a module, stands for inside a function; None for its own and for what is computed."""
    if isinstance(node, ast.Name) and node.id not in own_names(function):
        return function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(module := resolve(node.value, function), ModuleType):
        return getattr(module, node.attr, None)
    return None


def own_names(function: FunctionType) -> tuple[str, ...]:
    """Its parameters and local variables."""
    return function.__code__.co_varnames + function.__code__.co_cellvars


def plain(function: Any) -> Any:
    """What `tile.jit` was given."""
    return inspect.unwrap(function) if callable(function) else function


def name_of(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def source(function: FunctionType) -> str:
    return textwrap.dedent(inspect.getsource(function))


def parse(function: FunctionType, text: str = "") -> ast.FunctionDef:
    """Its tree, or that of a new text for it, undecorated, with the line numbers of its file."""
    tree = ast.parse(text or source(function)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    return ast.increment_lineno(tree, inspect.getsourcelines(function)[1] - 1)


def text_of(function: FunctionType, node: ast.AST) -> str:
    """Its source, on one line."""
    first = inspect.getsourcelines(function)[1] - 1
    text = ast.get_source_segment("\n" * first + source(function), node) or ""
    return " ".join(text.split())
