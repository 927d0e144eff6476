"""Senlin's property names, every fault named, and a schema that says the same."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.heat_stack.adoption import hidden_in
from yaffle.drivers.profiles.heat_stack.operations.create import made_of
from yaffle.drivers.profiles.heat_stack.schema import SCHEMA
from yaffle.drivers.profiles.heat_stack.spec import DEFAULTS, PARSERS, validate
from yaffle.errors import InvalidSpec

TEMPLATE = {"heat_template_version": "2018-08-31", "resources": {}}


def test_what_is_written_in_senlins_words_reaches_heat_in_its_own() -> None:
    given = {
        "context": {},
        "template": TEMPLATE,
        "parameters": {"size": 2},
        "files": {"a.yaml": "x"},
        "timeout": 5,
        "disable_rollback": "false",
        "environment": {"parameters": {}},
    }
    found = made_of(validate(given))
    assert found == {
        "template": TEMPLATE,
        "parameters": {"size": 2},
        "files": {"a.yaml": "x"},
        "timeout_mins": 5,
        "disable_rollback": False,
        "environment": {"parameters": {}},
    }
    assert made_of(validate({"template": TEMPLATE}))["disable_rollback"] is True


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param({}, "exactly one of template and template_url", id="nothing"),
        pytest.param(
            {"template": TEMPLATE, "template_url": "http://x/y"}, "exactly one", id="both"
        ),
        pytest.param({"template": "x"}, "template: must map", id="text"),
        pytest.param({"template": {"resources": {}}}, "no heat_template_version", id="no version"),
        pytest.param({"template": TEMPLATE, "timeout": 0}, "timeout: must be a number", id="zero"),
        pytest.param({"template": TEMPLATE, "timeout": True}, "timeout: must be", id="a flag"),
        pytest.param({"template": TEMPLATE, "files": {"a": 1}}, "files: a must be", id="files"),
        pytest.param({"template": TEMPLATE, "context": {"a": 1}}, "context: is not", id="context"),
        pytest.param({"template": TEMPLATE, "disable_rollback": 1}, "true or false", id="flag"),
        pytest.param({"template_url": "file:///etc/passwd"}, "template_url: must", id="a file"),
        pytest.param({"template": TEMPLATE, "stack": 1}, "stack: unknown property", id="unknown"),
    ],
)
def test_faults_are_named(given: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        validate(given)
    assert any(fault in problem for problem in refused.value.problems), refused.value.problems


def test_the_schema_names_what_is_accepted() -> None:
    assert set(SCHEMA) == set(PARSERS)
    assert {name: SCHEMA[name].default for name in DEFAULTS} == dict(DEFAULTS)


def test_parameters_that_heat_hides_are_named() -> None:
    assert hidden_in({"parameters": {"b": "******", "a": "******", "c": "x"}}) == "a, b"
    assert hidden_in({}) == ""
