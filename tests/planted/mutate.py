"""Change the core in every small way there is and count how many changes its fast tests notice.

Comparisons are turned and shifted, conditions negated, `and` and `or` swapped, booleans and numbers
changed, plus and minus and min and max exchanged, an argument of `replace` dropped, a row of a table
given what another row says. Every change is one mutant; a mutant that no test notices survives and
is listed with its line.

    python -m tests.planted.mutate [FILE ...]       e.g. health/verdict.py; without any, all that decides

The score and the reasons of the survivors are in docs/explanation/core-mutation.md.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.planted.run import planted_tree

ROOT = Path(__file__).resolve().parents[2]
CORE = Path("src/yaffle/core")
TESTS = ("tests/unit/core", "tests/scenarios")
SLOW = "--ignore=tests/unit/core/test_assignment.py"
"""A third of their time, and about nothing that is changed here."""
ROOMS = ("health", "planning", "recovery", "scaling")
"""Where it is decided."""
WORKERS = 2
TIMEOUT_S = 60

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),  # codespell:ignore notin
    ast.NotIn: (ast.In,),  # codespell:ignore notin
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of one node."""
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS.get(type(op), ()):
                changed = copy.deepcopy(node)
                changed.ops = [other()]
                yield changed
        case ast.Compare(ops=[_, *_]):
            for place, op in enumerate(node.ops):
                for other in COMPARISONS.get(type(op), ()):
                    changed = copy.deepcopy(node)
                    changed.ops[place] = other()
                    yield changed
        case ast.BoolOp():
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.UnaryOp(op=ast.USub()):
            yield node.operand
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            yield changed
        case ast.Constant(value=bool()):
            yield ast.Constant(value=not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(value=node.value + 1)
            yield ast.Constant(value=node.value - 1)
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Call(func=ast.Name(id=name)) if name in EXCHANGED:
            changed = copy.deepcopy(node)
            changed.func = ast.Name(id=EXCHANGED[name], ctx=ast.Load())
            yield changed
        case ast.Call(func=ast.Name(id="replace"), keywords=[_, *_]):
            for place in range(len(node.keywords)):
                changed = copy.deepcopy(node)
                del changed.keywords[place]
                yield changed
        case ast.If():
            changed = copy.deepcopy(node)
            changed.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
            yield changed


def other_rows(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what other rows of the same table say, for a value of a table."""
    if isinstance(parent, ast.Dict) and field == "values" and isinstance(node, ast.Attribute):
        mine = ast.unparse(node)
        for said in sorted({ast.unparse(v) for v in parent.values} - {mine}):
            if re.fullmatch(r"\w+\.\w+", said):
                yield ast.parse(said, mode="eval").body


def is_inert(node: ast.AST) -> bool:
    """Whether changing the node cannot change what runs: annotations' imports, dataclass flags."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Name(id="dataclass")):
            return True
    return False


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield every place of the tree that can hold another node: parent, field, index."""
    stack: list[ast.AST] = [tree]
    while stack:
        parent = stack.pop()
        for field, value in ast.iter_fields(parent):
            if field in {"annotation", "returns"}:
                continue
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if isinstance(child, ast.AST) and not is_inert(child):
                    stack.append(child)
                    yield parent, field, index if isinstance(value, list) else None


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, what is changed into what, and the whole changed source."""
    tree = ast.parse(source)
    for parent, field, index in list(places(tree)):
        value = getattr(parent, field)
        node = value if index is None else value[index]
        for other in (*variants(node), *other_rows(parent, field, node)):
            put(parent, field, index, other)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            put(parent, field, index, node)
            yield node.lineno, f"{told(node)}  →  {told(other)}", changed


def told(node: ast.AST) -> str:
    """Return one line of source; of an `if` its condition only."""
    text = ast.unparse(node.test if isinstance(node, ast.If) else node)
    return " ".join(text.split())


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def own_tests(name: str) -> list[str]:
    """Return the tests of the core that import the module; they are asked first."""
    module = "yaffle.core." + name.removesuffix(".py").replace("/", ".")
    package, _, last = module.rpartition(".")
    asks = re.compile(
        rf"from {re.escape(module)} import|from {re.escape(package)} import .*\b{last}\b"
    )
    files = sorted((ROOT / TESTS[0]).glob("test_*.py"))
    return [str(f.relative_to(ROOT)) for f in files if asks.search(f.read_text())]


def survives(tree: Path, name: str) -> bool:
    """Whether the fast tests pass, the file's own asked first; a hang is noticed too."""
    return passes(tree, *own_tests(name)) and passes(tree, *TESTS)


def passes(tree: Path, *tests: str, compiled: bool = True) -> bool:
    """Whether they pass; at first, not `compiled`, what they import is compiled for all who follow."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if compiled:
        # Two changes within a second would be taken for each other.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Without the plugins of the whole: importing them takes four times as long as these tests.
    lean = (
        "-o",
        "addopts=--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:schemathesis",
    )
    command = [sys.executable, "-m", "pytest", "-x", "-q", *lean, SLOW, *tests]
    try:
        done = subprocess.run(
            command, check=False, cwd=tree, env=environment, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", help="names in src/yaffle/core")
    rooms = (path for room in ROOMS for path in sorted((ROOT / CORE / room).glob("*.py")))
    all_of = [str(path.relative_to(ROOT / CORE)) for path in rooms if path.stem != "__init__"]
    names = parser.parse_args().files or all_of
    for name in names:
        if not own_tests(name):
            print(f"{name}: left out, its tests live with those who use it")
    names = [name for name in names if own_tests(name)]
    with tempfile.TemporaryDirectory(prefix="mutate-") as place:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            trees.put(tree := planted_tree(None, Path(place) / str(number)))
            if not passes(tree, *TESTS, compiled=False):
                raise SystemExit("the tests fail before anything is changed")
        total = sum(measure(name, trees) for name in names)
    return 1 if total else 0


def measure(name: str, trees: SimpleQueue[Path]) -> int:
    """Print the survivors and the score of one file; return how many survived."""
    source = (ROOT / CORE / name).read_text()
    made = list(mutants(source))

    def attempt(changed: str) -> bool:
        tree = trees.get()
        try:
            (tree / CORE / name).write_text(changed)
            return survives(tree, name)
        finally:
            (tree / CORE / name).write_text(source)
            trees.put(tree)

    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        survived = list(pool.map(attempt, [changed for _, _, changed in made]))
    for (line, what, _), alive in zip(made, survived, strict=True):
        if alive:
            print(f"  {name}:{line}  {what}", flush=True)
    print(f"{name}: {len(made) - sum(survived)} of {len(made)} noticed", flush=True)
    return sum(survived)


if __name__ == "__main__":
    sys.exit(main())
