"""What a pattern finds does not depend on what it was asked before, nor on how the body is encoded."""

from __future__ import annotations

import re2
from hypothesis import given
from hypothesis import strategies as st

from yaffle.prober.verdict import compile_pattern

PATTERNS = ["good", "go+d$", "^ok$", "x.y", "é", "^.$", "^$", "\\bup\\b", "�", "^ab*c"]
BODIES = [
    b"", b"\n", b"good", b"good\n", b"good\n\n", b"goood day", b"ok", b"ok\n", b"ok \n", b"abc",
    "xéy".encode(), "xéy\n".encode(), b"x\xe9y", b"\xff good", "é".encode(), b"\xe9",
    b"it is up", b"upper", b"\xff\n",
]  # fmt: skip


def slowly(pattern: str, body: bytes) -> bool:
    """What was promised, without any short cut."""
    text = body.decode("utf-8", "replace")
    texts = [text, text[:-1]] if text.endswith("\n") else [text]
    return any(re2.search(pattern, one) for one in texts)


@given(st.sampled_from(PATTERNS), st.lists(st.sampled_from(BODIES), min_size=1, max_size=12))
def test_each_body_for_itself(pattern: str, bodies: list[bytes]) -> None:
    compiled = compile_pattern(pattern)
    assert compiled is not None
    for body in bodies:
        assert compiled.found_in(body) is slowly(pattern, body)
