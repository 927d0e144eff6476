"""Templates are a closed substitution: known names, one pass, nothing evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.policy.documents import accepted, document, problems

from yaffle.errors import InvalidSpec
from yaffle.policy import templates

NAMES: dict[str, object] = {
    "node.id": "n-1",
    "node.name": "web-1",
    "node.physical_id": "p-1",
    "node.index": 3,
    "cluster.name": "web",
    "node.attributes.zone": "az1",
}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        pytest.param("{{ node.id }}", "n-1", id="whole"),
        pytest.param("{{node.id}}", "n-1", id="no-blanks"),
        pytest.param("{{ node.physicalid }}/{{ node.physical_id }}", "p-1/p-1", id="alias"),
        pytest.param("{{ node.index }}", 3, id="whole-keeps-its-type"),
        pytest.param("n{{ node.index }}", "n3", id="part-becomes-text"),
        pytest.param("{{ node.attributes.zone }}", "az1", id="attribute"),
        pytest.param({"a": ["{{ node.name }}", 5, None]}, {"a": ["web-1", 5, None]}, id="deep"),
        pytest.param({"{{ node.id }}": 1}, {"{{ node.id }}": 1}, id="keys-stay"),
        pytest.param("{node.id} }} $x %s", "{node.id} }} $x %s", id="not-a-template"),
    ],
)
def test_fill(value: object, filled: object) -> None:
    assert templates.fill(value, NAMES) == filled


def test_a_missing_value_is_an_error_that_names_them_all() -> None:
    with pytest.raises(InvalidSpec, match=r"no value here for cluster\.id, incident\.id"):
        templates.fill(["{{ incident.id }}", "{{ cluster.id }}", "{{ node.id }}"], NAMES)
    with pytest.raises(InvalidSpec, match=r"node\.attributes\.deep"):
        templates.fill("{{ node.attributes.deep }}", {"node.attributes.deep": {"a": 1}})


KNOWN = st.sampled_from([*templates.NAMES, *templates.ALIASES, "node.attributes.zone"])
PART = KNOWN.map("{{{{ {} }}}}".format)


@given(
    hostile=st.text(max_size=30) | PART,
    parts=st.lists(PART | st.just("-"), min_size=1, max_size=4),
)
def test_a_filled_in_value_is_never_expanded_again(hostile: str, parts: list[str]) -> None:
    names: dict[str, object] = dict.fromkeys((*templates.NAMES, "node.attributes.zone"), hostile)
    wanted = "".join("-" if part == "-" else hostile for part in parts)
    assert templates.fill("".join(parts), names) == wanted


LEAF = st.text(alphabet="{} .node_id", max_size=20) | st.integers() | st.none()


@given(st.recursive(LEAF, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8))
def test_what_check_accepts_can_be_filled(value: object) -> None:
    if not list(templates.check(value)):
        names: dict[str, object] = dict.fromkeys(templates.names_in(value), "x")
        templates.fill(value, names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ node.ip }}", "unknown name 'node.ip'"),
        ("{{ node.nme }}", "did you mean node.name?"),
        ("{{ node.attributes }}", "unknown name 'node.attributes'"),
        ("{{ node.attributes.a.b }}", "unknown name"),
        ("{{ node.__class__ }}", "unknown name 'node.__class__'"),
        ("{{ node.id | upper }}", "unknown name"),
        ("{{ 1 + 1 }}", "unknown name '1 + 1'"),
        ("{{ }}", "unknown name ''"),
        ("{{ node.id", "'{{' without its '}}'"),
        ("{{ {node.id} }}", "'{{' without its '}}'"),
    ],
)
def test_unknown_names_are_refused_with_their_place(text: str, said: str) -> None:
    actions = [{"name": "w", "type": "MISTRAL_WORKFLOW", "params": {"deep": [{"x": text}]}}]
    (line,) = problems(document(actions=actions))
    assert line.startswith("recovery.actions.0.params.deep.0.x: ")
    assert said in line


def test_long_blanks_cost_no_time() -> None:
    assert list(templates.check("{{" + " " * 200_000)) == [
        ((), "'{{' without its '}}'; write {{ name }}")
    ]


def test_known_names_are_accepted_in_builtin_params_too() -> None:
    actions = [{"name": "REBOOT", "params": {"type": "{{ node.attributes.reboot_type }}"}}]
    parsed = accepted(document(actions=actions))
    params = parsed.policy.recovery.actions[0].params
    assert templates.names_in(params) == {"node.attributes.reboot_type"}
