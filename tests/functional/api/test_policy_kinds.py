"""Policies that heal nothing, over our own API: judged and stored as strictly, without a worst case."""

from __future__ import annotations

import json
from typing import Any

from tests.functional.api.live import Live

BATCH = {
    "type": "senlin.policy.batch",
    "version": "1.0",
    "properties": {"min_in_service": 2, "max_batch_size": "3"},
}


def changed(**properties: object) -> dict[str, Any]:
    return {"document": {**BATCH, **properties}}


def test_a_batch_policy_is_stored_in_full(server: Live) -> None:
    made = server.policy("slowly", json.dumps(BATCH))
    assert made["type"] == "senlin.policy.batch-1.0"
    shown = server.call("GET", "/policies/slowly")["policy"]
    assert shown["arithmetic"] is None
    assert shown["spec"]["properties"] == {
        "min_in_service": 2,
        "max_batch_size": 3,
        "pause_time": 60,
    }


def test_a_policy_stays_of_its_type(server: Live) -> None:
    server.policy("stays", json.dumps(BATCH))
    scaling = {"type": "senlin.policy.scaling", "properties": {"event": "CLUSTER_SCALE_IN"}}
    told = server.call("PUT", "/policies/stays", changed(**scaling), want=400)["error"]
    assert "is of type senlin.policy.batch and stays so" in told["message"]
    server.call("PUT", "/policies/stays", changed(properties={"pause_time": 5}))
    shown = server.call("GET", "/policies/stays")["policy"]
    assert shown["spec"]["properties"]["pause_time"] == 5


def test_validate_says_the_type_and_no_worst_case(server: Live) -> None:
    told = server.call("POST", "/policies/validate", {"document": BATCH})["policy"]
    assert (told["type"], told["version"]) == ("senlin.policy.batch", "1.0")
    assert told["arithmetic"] is None


def test_an_unknown_type_is_not_found_and_says_what_is_known(server: Live) -> None:
    body = changed(type="senlin.policy.batches")
    told = server.call("POST", "/policies/validate", body, want=404)["error"]
    assert "The policy_type 'senlin.policy.batches-1.0' could not be found." in told["message"]
    assert "did you mean senlin.policy.batch?" in told["message"]


def test_every_fault_is_told(server: Live) -> None:
    body = changed(properties={"min_in_service": -1, "pause": 1})
    told = server.call("POST", "/policies/validate", body, want=400)["error"]
    assert told["type"] == "InvalidSpec"
    assert [line.split(":")[0] for line in told["problems"]] == ["min_in_service", "pause"]
