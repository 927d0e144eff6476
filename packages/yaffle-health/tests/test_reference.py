"""The reference cannot go stale: what is generated is compared, what is written by hand is tried."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.pages import prose

import yaffle_health
from yaffle_health import uris
from yaffle_health.errors import BadUri
from yaffle_health.manager import Manager
from yaffle_health.views import Shape

DOCS = Path(__file__).parents[1] / "docs"
ENDPOINT = prose(DOCS / "reference" / "endpoint.md")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_health", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


def rows(title: str) -> list[tuple[str, ...]]:
    """Return the cells of the tables below a heading; `|` cannot be in one."""
    section = re.split(r"^## ", ENDPOINT, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(title))
    found = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    return [row for row in found if "`" in row[0]]


@pytest.mark.parametrize("name", list(GENERATOR.PAGES))
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    text = GENERATOR.PAGES[name]().rstrip("\n") + "\n"
    assert (DOCS / "reference" / name).read_text() == text, "run docs/generate.py"


def test_every_public_name_has_words() -> None:
    page = (DOCS / "reference" / "python.md").read_text()
    for name in yaffle_health.__all__:
        assert f"## yaffle_health.{name}\n" in page
    # A heading, its code, and then at once the next heading: something without a docstring.
    assert re.findall(r"```text\n[^`├]*```\n\n+(##+ .*)", page) == []


REFUSED = [
    (row[0].strip("`"), row[1])
    for row in rows("Addresses")
    if ENDPOINT.index(row[0]) > ENDPOINT.index("Refused, with")
]


@pytest.mark.parametrize(("write", "why"), REFUSED)
def test_an_address_that_the_page_refuses_is_refused_for_its_reason(write: str, why: str) -> None:
    with pytest.raises(BadUri) as error:
        uris.parse(write)
    assert why in str(error.value)


@pytest.mark.parametrize(
    "write", [one for row in rows("Addresses") for one in re.findall(r"`([^`]+)`", row[0])]
)
def test_an_address_that_the_page_shows_is_taken(write: str) -> None:
    if write not in dict(REFUSED):
        assert len(uris.parse(write)) == 1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("endpoint") / "s"
    with yaffle_health.serve(Manager(), uri=f"unix://{path}", required=True):
        yield path


@pytest.mark.parametrize(
    ("request_line", "status"), [(row[0].strip("`"), int(row[1])) for row in rows("Requests")]
)
def test_a_request_of_the_page_gets_the_pages_answer(
    place: Path, request_line: str, status: int
) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(place))
        client.sendall(f"{request_line}\r\nHost: x\r\n\r\n".encode())
        assert int(client.recv(65536).split()[1]) == status


def test_the_limits_and_the_shapes_are_those_of_the_page() -> None:
    from yaffle_health.http import request

    limits = f"{request.LINE_MAX} bytes is answered with 414, more than {request.HEAD_MAX} bytes"
    assert limits in ENDPOINT
    assert f"or {request.HEADERS_MAX} lines" in ENDPOINT
    assert str(uris.SUN_PATH_MAX) in ENDPOINT
    shapes = (DOCS / "reference" / "shapes.md").read_text()
    assert [f"## {shape}\n" in shapes for shape in Shape] == [True] * len(Shape)
