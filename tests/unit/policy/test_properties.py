"""Whatever arrives: InvalidSpec or a policy whose numbers agree with each other; nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yaffle.errors import InvalidSpec
from yaffle.model.timing import url_check_s
from yaffle.policy import ParsedPolicy, UnknownPolicyType, parse, parse_document, schema

QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)

SECONDS = st.integers(1, 120) | st.sampled_from([1.5, "30", 600, 3600])
FLAG = st.booleans() | st.sampled_from(["true", "False"])


def some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


OPTIONS = st.fixed_dictionaries(
    {"poll_url": st.sampled_from(["http://{node_ip}/", "https://{nodename}:{port}/h"])},
    optional={
        "poll_url_retry_limit": st.integers(1, 4),
        "poll_url_retry_interval": st.integers(0, 5),
        "poll_url_timeout": st.sampled_from([0.1, 1, 5]),
        "poll_url_ssl_verify": FLAG,
        "poll_url_keep_alive": FLAG,
        "poll_url_healthy_response": st.sampled_from(["ok", "", "(?i)pass"]),
    },
)
MODE = st.sampled_from(
    ["NODE_STATUS_POLLING", "LIFECYCLE_EVENTS", "HYPERVISOR_STATUS_POLLING", "LB_STATUS_POLLING"]
).map(lambda kind: {"type": kind}) | OPTIONS.map(
    lambda options: {"type": "NODE_STATUS_POLL_URL", "options": options}
)
ACTION = st.fixed_dictionaries(
    {"name": st.sampled_from(["REBOOT", "REBUILD", "RECREATE"])}, optional={"timeout": SECONDS}
) | st.fixed_dictionaries(
    {"name": st.just("flow"), "type": st.sampled_from(["HTTP", "COMMAND", "MISTRAL_WORKFLOW"])},
    optional={"in_place": FLAG, "params": st.just({"id": "{{ node.physical_id }}"})},
)
DETECTION = st.fixed_dictionaries(
    {"detection_modes": st.lists(MODE, min_size=1, max_size=3)},
    optional={
        "interval": SECONDS,
        "node_update_timeout": SECONDS,
        "recovery_conditional": st.sampled_from(["ANY_FAILED", "ALL_FAILED"]),
        "rise": st.integers(1, 5),
        "fall": st.integers(1, 5),
    },
)
RECOVERY = some(
    actions=st.lists(ACTION, max_size=3),
    fencing=st.lists(st.sampled_from(["COMPUTE", "HOST"]), max_size=2),
    node_delete_timeout=SECONDS,
    node_force_recreate=FLAG,
    mode=st.sampled_from(["recover", "observe"]),
    evidence=some(console_log=FLAG, timeout=SECONDS),
    snapshot=some(take=FLAG, restore=FLAG, timeout=SECONDS),
    limits=some(
        max_unhealthy=st.sampled_from([1, 3, "40%", "100%"]),
        max_in_flight=st.integers(1, 4),
        when_exceeded=st.sampled_from(["hold", "slow"]),
    ),
    retry=some(
        attempts=st.integers(1, 5), backoff=SECONDS, max_backoff=SECONDS, stable_after=SECONDS
    ),
)


def outcome(run: Callable[[], ParsedPolicy]) -> ParsedPolicy | tuple[str, ...]:
    """Return the policy, or what is wrong; anything else that is raised fails the test."""
    try:
        return run()
    except (InvalidSpec, UnknownPolicyType) as error:
        return error.problems


@QUICK
@given(detection=DETECTION, recovery=RECOVERY)
def test_an_accepted_document_has_consistent_arithmetic(
    detection: dict[str, Any], recovery: dict[str, Any]
) -> None:
    properties = {"detection": detection, "recovery": recovery}
    doc = {"type": "senlin.policy.health", "version": "1.3", "properties": properties}
    parsed = outcome(lambda: parse_document(doc))
    if isinstance(parsed, tuple):
        assert all(": " in line for line in parsed)
        return
    policy, times = parsed.policy, parsed.arithmetic
    found = policy.detection
    for mode in found.modes:
        if mode.url is not None:
            assert mode.url.timeout_s < found.interval_s
            assert url_check_s(mode.url) <= found.interval_s
    assert found.node_update_timeout_s >= found.interval_s * found.fall
    assert (
        policy.recovery.retry.max_backoff_s >= policy.recovery.retry.backoff_s >= found.interval_s
    )
    assert policy.recovery.actions
    if times.detect_s is not None and times.total_s is not None:
        assert times.detect_seen_by_all_s is not None
        assert found.interval_s * found.fall < times.detect_seen_by_all_s <= times.detect_s
        assert times.total_s >= times.detect_s + times.fence_s + times.recover_s
    deletes = any(action.name == "RECREATE" for action in policy.recovery.actions)
    fences = any(a.kind != "BUILTIN" for a in policy.recovery.actions) and policy.recovery.fencing
    assert (times.fence_s > 0) == (deletes or bool(fences))
    assert parse_document(parsed.document).policy == policy


# Documents near to right: real keys with any value, so that the deep checks are reached.
KEYS = sorted({key for shape in schema.SHAPES.values() for key in shape.model_fields})
WORDS = ["NODE_STATUS_POLL_URL", "LIFECYCLE_EVENTS", "REBOOT", "HTTP", "{{ node.id }}", "{{", "40%"]
LEAF = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([*WORDS, "1.0", "http://{x}/", "\ud800"])
)
KEY = st.sampled_from(KEYS) | st.text(max_size=5)
TREE = st.recursive(
    LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(KEY, x, max_size=4), max_leaves=12
)
MODES = st.lists(st.dictionaries(KEY, TREE, max_size=3) | TREE, max_size=3)


@QUICK
@given(
    version=st.sampled_from(["1.0", "1.1", "1.2", "1.3"]) | LEAF,
    detection=TREE | st.dictionaries(KEY, TREE | MODES, max_size=4),
    recovery=TREE | st.fixed_dictionaries({"actions": MODES | TREE}, optional={"limits": TREE}),
)
def test_any_parsed_document_is_a_policy_or_invalid(
    version: object, detection: object, recovery: object
) -> None:
    properties = {"detection": detection, "recovery": recovery}
    doc = {"type": "senlin.policy.health", "version": version, "properties": properties}
    assert outcome(lambda: parse_document(doc)) != ()


YAML = ": - [ ] { } , &a *a !!str !!int !!set !x << ? | > ' \" # % --- ... null ~ ="
PIECES = [*re.split(" ", YAML), "1", "0o7", "1.1", "2001-01-01"]
BLANKS = [" ", "  ", "    ", "\n", ":\n", ": ", "- ", "<<: ", "\t", "\x00", "\x85", "\ufeff", "é"]
TOKENS = [*KEYS, *WORDS, *PIECES, *BLANKS]
YAMLISH = st.lists(st.sampled_from(TOKENS), max_size=40).map("".join)
FRONT = "type: senlin.policy.health\nversion: 1.3\nproperties:\n  detection:\n    detection_modes: "


@QUICK
@given(text=st.text(max_size=80) | YAMLISH | YAMLISH.map(FRONT.__add__))
def test_any_text_is_a_policy_or_invalid(text: str) -> None:
    found = outcome(lambda: parse(text))
    assert found != ()
    if isinstance(found, tuple):
        assert all(line.startswith("policy.yaml:") for line in found)
