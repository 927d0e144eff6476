"""Whatever threads may read is made ready while its module is imported; one that is not may crash."""

from __future__ import annotations

import ast
import importlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import yaffle
from yaffle.model.msgspec_init import ready

SOURCE = Path(yaffle.__file__).parent
BY_LOCK = {"integrations/openstack/client.py: kind"}
"""Where the shape is whoever's asks: made ready below a lock."""

RACE = """
import dataclasses, resource, threading, msgspec
from yaffle.model.msgspec_init import prepared

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
half_made, go_on = threading.Event(), threading.Event()

def slowly():
    if not PREPARE and not half_made.is_set():
        half_made.set()
        go_on.wait(60)
    return int

@dataclasses.dataclass
class Inner:
    value: "slowly()"

@dataclasses.dataclass
class Outer:
    inner: "Inner"

def read():
    msgspec.json.decode(b'{"inner": {"value": 1}}', type=Outer)

if PREPARE:
    prepared(Outer)
one = threading.Thread(target=read)
one.start()
if not PREPARE:
    half_made.wait(60)
# Long after: it must not go on before the other one has come as far.
later = threading.Timer(15, go_on.set)
later.daemon = True
later.start()
read()
one.join()
"""
"""Two threads read the first of a shape, while the first of them still learns what it looks like."""


def shapes() -> Iterator[str]:
    """Yield, as `path: expression`, which shape each call of msgspec's reads."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not ast.unparse(node.func).startswith("msgspec."):
                continue
            asked = [k.value for k in node.keywords if k.arg == "type"]
            if node.func.attr == "convert":
                asked += node.args[1:2]
            for shape in asked:
                yield f"{path.relative_to(SOURCE)}: {ast.unparse(shape)}"


def test_msgspec_is_asked_as_this_test_expects() -> None:
    assert len(list(shapes())) > 5


@pytest.mark.parametrize("place", sorted(set(shapes()) - BY_LOCK))
def test_every_shape_that_is_read_was_made_ready(place: str) -> None:
    path, name = place.split(": ")
    module = importlib.import_module("yaffle." + path.removesuffix(".py").replace("/", "."))
    assert getattr(module, name) in ready, f"{place}: decorate the class with @prepared"


@pytest.mark.parametrize(("prepare", "code"), [(True, 0), (False, -signal.SIGSEGV)])
def test_two_threads_read_the_first_of_a_shape(prepare: bool, code: int) -> None:
    """Where the second one passes without being made ready, `yaffle.model.msgspec_init` can go."""
    source = RACE.replace("PREPARE", str(prepare))
    ended = subprocess.run([sys.executable, "-c", source], check=False, timeout=120)
    assert ended.returncode == code
