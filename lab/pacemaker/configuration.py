"""What the lab's cluster is told: Pacemaker's configuration (CIB) and Corosync's."""

from __future__ import annotations

from collections.abc import Sequence

PROPERTIES = {
    "stonith-enabled": "true",
    "stonith-timeout": "60s",
    "concurrent-fencing": "true",
    "no-quorum-policy": "stop",
    "dc-deadtime": "2s",
    # Many hosts share one processor here.
    "load-threshold": "0%",
    "node-action-limit": "256",
}


def address(name: str) -> str:
    """Return a host's address: c1 → 10.77.0.1, h001 → 10.77.1.1."""
    number = int(name[1:])
    if name.startswith("c"):
        return f"10.77.0.{number}"
    return f"10.77.{1 + number // 250}.{1 + number % 250}"


def cib(members: Sequence[str], remotes: Sequence[str], *, action: str, monitor_s: int) -> str:
    """Return the whole configuration as XML; `action`: what fencing does, `reboot` or `off`."""
    properties = {**PROPERTIES, "stonith-action": action}
    settings = _pairs("o", properties)
    nodes = "".join(f'<node id="{i}" uname="{n}"/>' for i, n in enumerate(members, 1))
    return f"""\
<cib crm_feature_set="3.16.1" validate-with="pacemaker-3.9" epoch="1" num_updates="0" admin_epoch="1">
<configuration>
<crm_config><cluster_property_set id="options">{settings}</cluster_property_set></crm_config>
<nodes>{nodes}</nodes>
<resources>
<primitive id="fence-lab" class="stonith" type="fence_lab">
<instance_attributes id="fl-a">{_pairs("fl", {"pcmk_host_check": "none"})}</instance_attributes>
<operations><op id="fl-m" name="monitor" interval="60s" timeout="20s"/></operations></primitive>
<primitive id="fence-mark" class="stonith" type="fence_yaffle">
<instance_attributes id="fm-a">{_pairs("fm", {"pcmk_host_check": "none"})}</instance_attributes>
<operations><op id="fm-m" name="monitor" interval="60s" timeout="20s"/></operations></primitive>
{"".join(_remote(name, monitor_s) for name in remotes)}
</resources>
<constraints/>
<fencing-topology>
<fencing-level id="ft" target-pattern="[ch][0-9]+" index="1" devices="fence-lab,fence-mark"/>
</fencing-topology>
</configuration>
<status/>
</cib>
"""


def _pairs(prefix: str, values: dict[str, str]) -> str:
    return "".join(
        f'<nvpair id="{prefix}-{name}" name="{name}" value="{value}"/>'
        for name, value in values.items()
    )


def _remote(name: str, monitor_s: int) -> str:
    server = _pairs(f"{name}-a", {"server": address(name), "reconnect_interval": "5s"})
    return f"""<primitive id="{name}" class="ocf" provider="pacemaker" type="remote">
<instance_attributes id="{name}-i">{server}</instance_attributes>
<operations><op id="{name}-m" name="monitor" interval="{monitor_s}s" timeout="{2 * monitor_s}s"/>
<op id="{name}-s" name="start" interval="0" timeout="20s"/>
<op id="{name}-t" name="stop" interval="0" timeout="20s"/></operations></primitive>
"""


def corosync(lab: str, members: Sequence[str]) -> str:
    """Return corosync.conf of every member."""
    nodes = "".join(
        f"  node {{\n    ring0_addr: {address(name)}\n    name: {name}\n    nodeid: {i}\n  }}\n"
        for i, name in enumerate(members, 1)
    )
    return f"""\
totem {{
  version: 2
  cluster_name: {lab}
  transport: knet
  crypto_cipher: none
  crypto_hash: none
  token: 1000
}}
nodelist {{
{nodes}}}
quorum {{
  provider: corosync_votequorum
  expected_votes: {len(members)}
}}
logging {{
  to_stderr: yes
  to_syslog: no
  timestamp: hires
}}
system {{
  sched_rr: no
  move_to_root_cgroup: no
  allow_knet_handle_fallback: yes
}}
"""
