"""Text that is broken, hostile or merely odd: one clear fault with its line, and never a crash."""

from __future__ import annotations

import pytest

from yaffle.errors import InvalidSpec
from yaffle.policy import DocumentSettings, parse, parse_document

HEAD = 'type: senlin.policy.health\nversion: "1.3"\n'
BODY = "properties: {detection: {detection_modes: [{type: NODE_STATUS_POLLING}]}, recovery: {}}\n"


def with_params(params: str) -> str:
    head = HEAD + "properties:\n  detection: {detection_modes: [{type: NODE_STATUS_POLLING}]}\n"
    return f"{head}  recovery:\n    actions:\n      - {{name: w, type: HTTP, params: {params}}}\n"


def faults(text: str, **settings: int) -> tuple[str, ...]:
    with pytest.raises(InvalidSpec) as caught:
        parse(text, settings=DocumentSettings(**settings))
    return caught.value.problems


BOMB = "".join(
    f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9 if n else ['x'] * 9)}]\n" for n in range(9)
)

BROKEN = [
    pytest.param("", "policy.yaml:1:1: the document is empty", id="empty"),
    pytest.param("# only a comment\n", "policy.yaml:1:1: the document is empty", id="comment"),
    pytest.param(
        "---\n", "has to be a mapping with type, version and properties, not nothing", id="null"
    ),
    pytest.param(
        "- a\n- b\n", "has to be a mapping with type, version and properties, not a list", id="list"
    ),
    pytest.param("hello", "not 'hello'", id="scalar"),
    pytest.param(
        "a: 1\n---\nb: 2\n", "policy.yaml:2:1: more than one YAML document", id="two-documents"
    ),
    pytest.param(
        "a: [1,\nb: 2\n",
        "policy.yaml:3:1: this is not valid YAML: did not find expected ',' or ']'",
        id="unclosed",
    ),
    pytest.param(
        "a:\n\t- b\n",
        "found character that cannot start any token; indent with spaces, not with tabs",
        id="tab",
    ),
    pytest.param("a:\n  b: {{ x }}-y\n", "quoted in YAML", id="template-in-text"),
    pytest.param("a: \x00", "control characters are not allowed", id="nul"),
    pytest.param("a: \udc80", "it is not Unicode text", id="surrogate"),
    pytest.param(
        "a: *nowhere\n",
        "policy.yaml:1:4: this is not valid YAML: found undefined alias",
        id="alias",
    ),
    pytest.param("a: &x [*x]\n", "nested deeper than 32 levels", id="cycle"),
    pytest.param("a:\n" + BOMB, "more than 20000 values", id="alias-bomb"),
    pytest.param("[" * 100_000, "nested deeper than 32 levels", id="deep-flow"),
    pytest.param("- " * 100_000, "nested deeper than 32 levels", id="deep-block"),
    pytest.param("a: " + "x" * 300_000, "300003 bytes; at most 262144 are read", id="large"),
    pytest.param("é" * 140_000, "280000 bytes", id="large-in-bytes"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_unreadable_text(text: str, said: str) -> None:
    assert any(said in line for line in faults(text)), faults(text)


ODD = [
    pytest.param(
        HEAD + "1: x\n" + BODY, "policy.yaml:3:1: the key '1' is not text", id="number-key"
    ),
    pytest.param(
        HEAD + "on: x\n" + BODY, "policy.yaml:3:1: the key 'on' is not text", id="bool-key"
    ),
    pytest.param(
        HEAD + "? [a]\n: x\n" + BODY, "policy.yaml:3:3: a key has to be text", id="list-key"
    ),
    pytest.param(HEAD + "<<: {a: b}\n" + BODY, "merge keys (<<) are not read", id="merge"),
    pytest.param(
        HEAD + "name: !!binary aGk=\n" + BODY,
        "the YAML tag tag:yaml.org,2002:binary is not read",
        id="binary",
    ),
    pytest.param(
        HEAD + "name: !!python/object:os.system x\n" + BODY, "is not read; remove it", id="python"
    ),
    pytest.param(
        HEAD + "name: x\nname: y\n" + BODY,
        "policy.yaml:4:1 name: the key stands twice, first in line 3",
        id="duplicate-key",
    ),
]


@pytest.mark.parametrize(("text", "said"), ODD)
def test_odd_yaml_is_a_fault_with_its_place(text: str, said: str) -> None:
    # The text after the path differs by key; the place comes first in any case.
    found = faults(text)
    assert any(said in line for line in found), found


NOT_NUMBERS = [
    "010",
    "0x1F",
    "1:30",
    "1_000",
    ".inf",
    ".nan",
    "1e3",
    "9" * 5000,
    "2026-01-01",
    "{}",
]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=[value[:10] for value in NOT_NUMBERS])
def test_numbers_are_plain_decimals(value: str) -> None:
    text = HEAD + BODY.replace("{detection_modes", f"{{interval: {value}, detection_modes")
    (line,) = faults(text)
    assert "detection.interval" in line


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-99-99", "2026-99-99"),
        ("2026-01-01", "2026-01-01"),
        ("yes", True),
        ("~", None),
        ("1.50", 1.5),
        ("-7", -7),
        ('"010"', "010"),
        ("=", "="),
        ("&x [1, 2]", [1, 2]),
    ],
)
def test_params_hold_what_json_can(written: str, read: object) -> None:
    parsed = parse(with_params(f"{{value: {written}}}"))
    assert parsed.policy.recovery.actions[0].params["value"] == read


def test_aliases_are_followed_within_the_bound() -> None:
    parsed = parse(with_params("{a: &x {k: 1}, b: *x}"))
    assert parsed.policy.recovery.actions[0].params == {"a": {"k": 1}, "b": {"k": 1}}


def test_bounds_are_settings() -> None:
    assert "at most 10 are read" in faults(HEAD + BODY, max_bytes=10)[0]
    assert "nested deeper than 3 levels" in faults(HEAD + BODY, max_depth=3)[0]
    assert "more than 5 values" in faults(HEAD + BODY, max_values=5)[0]


def test_a_thousand_faults_are_told_in_part() -> None:
    found = faults(HEAD + BODY + "".join(f"k{n}: 1\n" for n in range(1000)))
    assert len(found) == 201
    assert found[-1] == "and 800 more"


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        pytest.param({"name": nested(100)}, "document: nested deeper than 32", id="deep"),
        pytest.param({"name": [1] * 30_000}, "document: more than 20000 values", id="many"),
        pytest.param({"name": "x" * 300_000}, "a text longer than 262144", id="long"),
        pytest.param({1: 2}, "document: the key 1 is not text", id="key"),
        pytest.param({"name": {1, 2}}, "name: set is no JSON value", id="set"),
        pytest.param({"name": "\ud800"}, "name: this is not Unicode text", id="surrogate"),
        pytest.param({"version": 10**5000}, "version: unknown version", id="huge-version"),
        pytest.param({"version": float("nan")}, "version: unknown version nan", id="nan"),
        pytest.param({"version": True}, "version: unknown version", id="bool"),
        pytest.param({"type": 10**5000}, "type: unknown policy type a huge number", id="huge"),
    ],
)
def test_parsed_documents_are_bounded_too(doc: object, said: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_document(doc)
    assert any(said in line for line in caught.value.problems), caught.value.problems


def test_the_callers_document_is_left_alone() -> None:
    options = {
        "interval": 30,
        "poll_url": "http://{node_ip}/",
        "poll_url_conn_error_as_unheathy": True,
    }
    doc = {
        "type": "senlin.policy.health",
        "version": "1.0",
        "properties": {
            "detection": {"type": "NODE_STATUS_POLL_URL", "options": options},
            "recovery": {},
        },
    }
    before = repr(doc)
    parse_document(doc)
    assert repr(doc) == before
