"""One node for every workflow test."""

from __future__ import annotations

from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.operations import Target

NODE = Target(
    node_id=NodeId("node-1"),
    name="web-1",
    physical_id="server-1",
    cluster_id=ClusterId("cluster-1"),
    cluster_name="web",
    profile_type="yaffle.local.process-1.0",
    spec={"password": "spec-is-not-sent"},
    attributes={"node_ip": "10.0.0.7"},
)
