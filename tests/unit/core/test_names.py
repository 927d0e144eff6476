"""Names of new nodes: the directives of `node.name.format`, and formats that make no name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.scaling.node_names import DEFAULT, fault, render


def counting() -> object:
    """Return a chance that hands out 0, 1, 2, … as far as it may."""
    calls = iter(range(10_000))
    return lambda n: next(calls) % n


@pytest.mark.parametrize(
    ("fmt", "name"),
    [
        pytest.param("", "node-abcdefgh", id="default"),
        pytest.param("node-$8R", "node-abcdefgh", id="the-default-spelt-out"),
        pytest.param("web-$I", "web-7", id="index"),
        pytest.param("web-$3I", "web-007", id="padded"),
        pytest.param("web-$1I", "web-7", id="never-cut"),
        pytest.param("$R", "abcdefgh", id="random-of-8"),
        pytest.param("$2R.$2r~$04I_x", "ab.cd~0007_x", id="several"),
        pytest.param("plain", "plain", id="none"),
        pytest.param("啄木鸟-$I", "啄木鸟-7", id="cjk"),
    ],
)
def test_render(fmt: str, name: str) -> None:
    assert fault(fmt) is None
    assert render(fmt, index=7, pick=counting()) == name  # type: ignore[arg-type]


def test_a_random_string_begins_with_a_letter() -> None:
    assert render("$3R", index=0, pick=lambda n: n - 1) == "Z99"
    assert render("$3r", index=0, pick=lambda n: n - 1) == "z99"


@pytest.mark.parametrize(
    ("fmt", "text"),
    [
        pytest.param(
            "n-$8X", "node.name.format: a '$' that begins none of $<n>I, $<n>R and $<n>r", id="kind"
        ),
        pytest.param(
            "n$", "node.name.format: a '$' that begins none of $<n>I, $<n>R and $<n>r", id="alone"
        ),
        pytest.param(
            "a b$I",
            "node.name.format: a name has letters, digits, '.', '_', '-' and '~' only",
            id="blank",
        ),
        pytest.param(
            "a\n",
            "node.name.format: a name has letters, digits, '.', '_', '-' and '~' only",
            id="line-end",
        ),
        pytest.param(
            "-$I",
            "node.name.format: a name that begins with '-' would be an option to every command",
            id="option",
        ),
        pytest.param(
            "$0R-$I",
            "node.name.format: a name that begins with '-' would be an option to every command",
            id="option-behind-nothing",
        ),
        pytest.param("$0R", "node.name.format: every name would be empty", id="empty"),
        pytest.param(
            "$250R-$I",
            "node.name.format: names of up to 261 characters; at most 255 are possible",
            id="too-long",
        ),
        pytest.param(
            "$99999999I",
            "node.name.format: names of up to 99999999 characters; at most 255 are possible",
            id="far-too-long",
        ),
    ],
)
def test_faults(fmt: str, text: str) -> None:
    assert fault(fmt) == text


@given(st.text("$019IRrx-", max_size=12), st.integers(0, 10**9))
def test_a_format_without_fault_makes_a_usable_name(fmt: str, index: int) -> None:
    if fault(fmt) is None:
        name = render(fmt, index=index, pick=lambda n: n - 1)
        assert 1 <= len(name) <= 255
        assert "$" not in name
        assert not name.startswith("-")


def test_a_format_that_was_stored_before_makes_no_option_either() -> None:
    assert render("-$1I", index=3, pick=lambda n: n - 1) == "n-3"


def test_the_default_has_no_fault() -> None:
    assert fault(DEFAULT) is None
    assert fault("") is None
