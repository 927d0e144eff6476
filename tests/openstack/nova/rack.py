"""A power switch for the hosts of the lab, and a policy that has one off before a server is moved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from tests.openstack.cloud import Cloud
from tests.private import private

AGENT: Final = Path(__file__).parents[2] / "contract/fencers_host/scripted_agent.py"
SETTINGS: Final = """
[drivers."os.nova.server-1.0"]
cloud = "{cloud}"
clouds_file = "{clouds}"
full_sweep = 20

[drivers.HOST.devices.rack]
agent = "{agent}"
options = {{device = "{folder}", username = "admin"}}
password_file = "{folder}/password"
hosts = {{cmp1 = "1", cmp2 = "2"}}
"""


def switched(cloud: Cloud, folder: Path) -> Path:
    """Return settings of a Yaffle that may switch hosts off; `power` in the folder says what is on."""
    agent = Path(shutil.copy(AGENT, folder / "fence_scripted"))
    agent.chmod(0o755)
    (folder / "power").write_text("on")
    (folder / "plan.json").write_text("{}")
    private(folder / "password", "secret\n")
    config = folder / "yaffle.toml"
    config.write_text(
        SETTINGS.format(cloud=cloud.name, clouds=cloud.clouds_yaml, agent=agent, folder=folder)
    )
    return config


def care(max_unhealthy: int | str, in_flight: int) -> dict[str, Any]:
    """Return a policy that moves what was on a dead host, within these limits."""
    return {
        "type": "senlin.policy.health",
        "version": "1.3",
        "properties": {
            "detection": {
                "interval": 2, "node_update_timeout": 5, "rise": 1, "fall": 2,
                "recovery_conditional": "ANY_FAILED",
                "detection_modes": [
                    {"type": "NODE_STATUS_POLLING"}, {"type": "HYPERVISOR_STATUS_POLLING"},
                ],
            },
            "recovery": {
                "fencing": ["HOST"],
                "actions": [
                    {"name": "REBOOT", "params": {"type": "HARD"}, "timeout": 60},
                    {"name": "EVACUATE", "timeout": 120},
                ],
                "limits": {"max_unhealthy": max_unhealthy, "max_in_flight": in_flight},
            },
        },
    }  # fmt: skip
