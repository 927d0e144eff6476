"""The tutorial about Nova is followed to the letter, in the lab that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks
from tests.docs.test_blocks import IN_A_CLOUD, Reader
from tests.openstack.cloud import Cloud

LAB = "lab"
"""Blocks that bring the cloud up and down: it is there already, and others use it."""


@pytest.mark.parametrize("name", sorted(IN_A_CLOUD))
def test_it_can_be_followed(
    name: str, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab").symlink_to(cloud.lab.plan.state)
    monkeypatch.setenv("CLONE", str(ROOT))
    reader = Reader(tmp_path)
    try:
        for block in blocks(ROOT / name):
            if LAB not in block.words:
                reader.follow(block)
    finally:
        reader.close()
