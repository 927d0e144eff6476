"""Senlin's own tests of its API (senlin-tempest-plugin) against Yaffle, with Keystone, Nova and Heat.

The suite runs a few of them; `make test-tempest` runs all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from lab.openstack import Lab
from tests.openstack.cloud import Cloud
from tests.openstack.tempest import plugin
from tests.openstack.tempest.plugin import Result
from tests.openstack.yaffles import serving_cloud

WHOLE: Final = os.environ.get("YAFFLE_TEMPEST") == "whole"
WHOLE_S: Final = 7200.0
FEW_S: Final = 600.0
FEW: Final = (
    "api_versions.test_api_version_show",
    "api_versions.test_api_versions_list",
    "build_info.test_build_info",
    "clusters.test_cluster_action_negative",
    "clusters.test_cluster_resize.TestClusterResizeNegativeInvalidResizeParams",
    "nodes.test_node_update_profile",
    "policies.test_policy_create_negative",
    "profile_types.test_profile_type_list",
    "services.test_services_list",
)
LEAST: Final = 15
"""So many tests are at least in those few; in all of them, three hundred."""
LAB_S: Final = 900.0
"""Until the lab is up, and nobody else has it alone."""
pytestmark = pytest.mark.timeout((WHOLE_S if WHOLE else FEW_S) + LAB_S)


@pytest.fixture
def tempest(lab: Lab, heat: str, cloud: Cloud, tmp_path: Path) -> Iterator[Path]:
    """The folder with tempest's configuration, of a member and of an administrator."""
    assert heat  # some of its nodes are stacks
    who = cloud.credentials
    with (
        plugin.provided(cloud),
        serving_cloud(cloud, tmp_path, f"tempest-{who.project}") as (_, region),
    ):
        plugin.configure(lab.plan, region, who, tmp_path)
        yield tmp_path


def test_senlins_own_tests_end_as_expected(tempest: Path) -> None:
    names = () if WHOLE else FEW
    results = plugin.run(tempest, names, within_s=WHOLE_S if WHOLE else FEW_S)
    assert len(results) >= (300 if WHOLE else LEAST)
    told = plugin.surprises(results, plugin.expected())
    assert not told, "\n\n".join(told)


def test_an_unexpected_end_is_noticed_both_ways() -> None:
    fails = {"a.known": "because"}

    def told(name: str, outcome: str) -> list[str]:
        result = Result(name=name, outcome=outcome, why="so", s=0.1)
        return plugin.surprises([result], fails)

    assert told("a.known", "failed") == told("a.other", "passed") == []
    assert told("a.other", "failed") == ["a.other fails:\nso"]
    assert told("setUpClass (a.other)", "failed")
    assert told("a.known", "passed") == ["a.known is passed, and was to fail: because"]
    assert told("a.known", "skipped")
    assert told("a.other", "skipped")


def test_every_expected_failure_has_a_reason() -> None:
    assert all(len(why) > 20 for why in plugin.expected().values())
