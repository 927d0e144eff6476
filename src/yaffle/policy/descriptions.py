"""Descriptions of the keys of policy documents, a line each: for reference pages and type schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, str]] = {
    "type": "`senlin.policy.health`.",
    "version": "1.0, 1.1, 1.2 or 1.3.",
    "name": "A name for the policy.",
    "description": "A text for people.",
    "properties": "The two parts: `detection` and `recovery`.",
    "properties.detection": "How a failure is found.",
    "properties.recovery": "How a failure is healed.",
    "detection.interval": "Seconds between two checks of a node; up to 10 % early or late.",
    "detection.node_update_timeout": "Grace: a node that was made or changed is not judged for so long.",
    "detection.recovery_conditional": "ANY_FAILED: one failing mode suffices. ALL_FAILED: all must fail.",
    "detection.rise": "Passes in a row before a mode counts as up.",
    "detection.fall": "Fails in a row before a mode counts as down.",
    "detection.detection_modes": "The questions that are asked. Required; 1 to 16.",
    "detection.reference_targets": "`host:port` or URLs that answer when our own network works.",
    "detection_modes.type": "What is asked. Required.",
    "detection_modes.options": "For NODE_STATUS_POLL_URL and LB_STATUS_POLLING only.",
    "options.poll_url": "The URL. Required for NODE_STATUS_POLL_URL.",
    "options.poll_url_ssl_verify": "Whether the certificate must verify.",
    "options.poll_url_conn_error_as_unhealthy": "If false, a connection error is unknown, not a failure.",
    "options.poll_url_healthy_response": (
        "Regular expression (RE2) searched in the body. Empty: a 2xx answer passes, and an"
        " `application/health+json` body decides."
    ),
    "options.poll_url_retry_limit": "Attempts in one check, the first included.",
    "options.poll_url_retry_interval": "Seconds between two attempts.",
    "options.poll_url_timeout": "Seconds for one attempt.",
    "options.poll_url_keep_alive": "Keep the connection. By default each check opens a new one.",
    "options.pool": (
        "LB_STATUS_POLLING: the pool (HAProxy: the backend) whose members the nodes are. Left out, it"
        " is the only one that has the nodes' addresses."
    ),
    "options.balancer": (
        "LB_STATUS_POLLING: a name from the operator's settings. May be left out where there is one."
    ),
    "recovery.mode": "`observe`: decide and record, but do nothing.",
    "recovery.actions": "The ladder: tried in order, each verified. Up to 16. Empty or absent: RECREATE.",
    "recovery.fencing": "Makes sure that the old copy is dead; asked in order until one has proved it.",
    "recovery.node_delete_timeout": "Seconds for the confirmed deletion before RECREATE creates.",
    "recovery.node_force_recreate": "Your consent to create although the old copy is not proved gone.",
    "recovery.evidence": "Capture what the failed node can still tell, before it is touched.",
    "recovery.snapshot": (
        "An image of the failed copy's disk, taken at the first attempt before the first REBUILD or"
        " RECREATE. Refused at attach if the profile takes none."
    ),
    "recovery.limits": "The limits of this cluster.",
    "recovery.retry": "How often the same node is tried.",
    "actions.name": "REBOOT, REBUILD, RECREATE, another operation of the profile, or a workflow's name.",
    "actions.type": "Absent: an operation. Else the kind of workflow.",
    "actions.params": "Parameters; checked against the operation's. May hold templates.",
    "actions.timeout": "Seconds for the act and its verification; `rise` looks are taken in any case.",
    "actions.in_place": (
        "Workflows only. Accepted. Whether a workflow needs a fence is the operator's word in the"
        " driver's settings; the worst case counts one."
    ),
    "evidence.console_log": "Whether the log is taken. If false, no evidence is.",
    "evidence.timeout": "Seconds; without evidence in time the recovery goes on.",
    "snapshot.take": "Whether one is taken.",
    "snapshot.restore": (
        "That rung boots from it. If that does not help, what follows boots the profile's own image."
    ),
    "snapshot.timeout": "Seconds; without a snapshot in time the recovery goes on.",
    "limits.max_unhealthy": "Storm limit: a number of nodes or a share of the desired capacity.",
    "limits.when_exceeded": "`hold` every node, or heal one at a time (`slow`).",
    "limits.max_in_flight": "Recoveries of this cluster at once.",
    "limits.domain": "Node attribute that names the failure domain; each domain has its own storm limit.",
    "retry.attempts": "Attempts before a person is needed.",
    "retry.backoff": "Seconds to back off after the first attempt; doubled after each.",
    "retry.max_backoff": "Longest back-off.",
    "retry.stable_after": "Seconds of health after which earlier attempts are forgotten.",
    # The policies that decide over a cluster's size.
    "properties.criteria": "Which of the sound nodes go first when the cluster shrinks.",
    "properties.destroy_after_deletion": "If false, a removed node stays, without a cluster.",
    "properties.grace_period": "Seconds between the decision and the removal.",
    "properties.reduce_desired_capacity": "If false, the cluster still wants as many nodes as before.",
    "properties.hooks": "Who is told before a node is removed, and may take its time.",
    "hooks.type": "How the hook is told. `zaqar` is not served here: give `webhook`.",
    "hooks.params": "Where the hook is.",
    "hooks.timeout": "Seconds that the removal waits to be completed by the hook.",
    "params.queue": "For `zaqar` only.",
    "params.url": "For `webhook`: where the message is posted. Required there.",
    "properties.event": "The action that the policy speaks about.",
    "properties.adjustment": "By how much the cluster changes.",
    "adjustment.type": "How `number` is meant.",
    "adjustment.number": "Nodes, or percent; always positive, since the event says the direction.",
    "adjustment.min_step": "The least change in nodes that a percentage makes.",
    "adjustment.best_effort": "Go as far as the cluster's bounds allow, instead of refusing.",
    "adjustment.cooldown": "Seconds after a scaling during which the next is refused.",
    "properties.min_in_service": "ACTIVE nodes that an update leaves alone at any time.",
    "properties.max_batch_size": "Nodes that are worked on at once. -1: as many as may be.",
    "properties.pause_time": "Seconds between two batches.",
}
"""By the last two keys of the place. Backquotes mark what is written in a document."""
