"""The engine's metrics. Labels are closed lists of words; a node or an id is never a label."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from yaffle.engine.runtime.listener_metrics import ListenerMetrics
from yaffle.model.host_state import UNKNOWN as UNKNOWN_HOST
from yaffle.model.host_state import HostState

DETECT_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)
BLINDNESS = ("clock_jump", "late_loop", "no_answer_anywhere", "one_channel_silent")
RECOVER_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics:
    """One registry per process, handed around rather than global."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.listener = CollectorRegistry()
        """What is counted where requests are answered; beside an engine that is another process."""
        self.audit_lost = Counter(
            "yaffle_audit_lost",
            "Entries of the audit log that could not be written.",
            registry=self.listener,
        )
        self._of_nodes()
        self._of_recoveries()
        self._of_messages()
        self._of_hosts()
        self._of_engines()

    def _of_nodes(self) -> None:
        self.observations = self._counter(
            "yaffle_observations", "Checks by outcome.", ["mode", "outcome"]
        )
        self.transitions = self._counter(
            "yaffle_health_transitions", "Changes of a node's health.", ["to"]
        )
        self.detect = Histogram(
            "yaffle_time_to_detect_seconds",
            "From the first failing check to the verdict.",
            registry=self.registry,
            buckets=DETECT_BUCKETS,
        )
        self.nodes = self._gauge("yaffle_nodes", "Watched nodes by health.", ["health"])
        self.never_seen = self._gauge(
            "yaffle_nodes_never_seen", "Watched nodes without a single observation.", []
        )
        self.quarantined = self._gauge(
            "yaffle_hosts_quarantined",
            "Hosts that nodes were moved off and whose old copies are not proved gone.",
            ["state"],
        )
        self.blind = self._counter("yaffle_blindness", "Times the watcher was blind.", ["cause"])
        for cause in BLINDNESS:
            # From 0 on: the growth of a counter that begins at 1 is seen by nobody.
            self.blind.labels(cause)
        self.probes = self._gauge("yaffle_probe_rate", "URL checks per second, lately.", [])
        self.heard = ListenerMetrics()
        self.registry.register(self.heard)

    def _of_recoveries(self) -> None:
        self.recover = Histogram(
            "yaffle_time_to_recover_seconds",
            "From the verdict to the verified recovery.",
            registry=self.registry,
            buckets=RECOVER_BUCKETS,
        )
        self.start = Histogram(
            "yaffle_decided_to_started_seconds",
            "From the decision to the first step.",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.holds = self._counter("yaffle_holds", "Decisions to hold.", ["reason"])
        self.held = self._gauge("yaffle_nodes_held", "Nodes held now.", ["reason"])
        self.incidents = self._counter("yaffle_incidents", "Incidents ended.", ["state"])
        self.steps = self._counter("yaffle_recovery_steps", "Steps.", ["stage", "result"])
        self.ready_age = self._gauge(
            "yaffle_actions_oldest_ready_seconds", "Age of the oldest unclaimed action.", []
        )
        self.stops = self._gauge("yaffle_stops", "Global stops in force, by whom.", ["by"])
        self.takeovers = self._counter("yaffle_takeovers", "Actions taken over half-done.", [])

    def _of_messages(self) -> None:
        self.queue_age = self._gauge(
            "yaffle_outbox_oldest_seconds", "Age of the oldest undelivered message.", []
        )
        self.parked = self._gauge(
            "yaffle_outbox_parked", "Messages that wait for a person (parked).", []
        )
        self.alert_age = self._gauge(
            "yaffle_alerts_oldest_seconds",
            "Age of the oldest alert of a failed host that its endpoint has not accepted.",
            [],
        )
        self.alerts_refused = self._gauge(
            "yaffle_alerts_refused", "Alerts of failed hosts that their endpoint refuses.", []
        )
        self.notification_age = self._gauge(
            "yaffle_host_notifications_oldest_seconds",
            "Age of the oldest notification of a host that is under way.",
            [],
        )

    def _of_hosts(self) -> None:
        self.host_fence = Histogram(
            "yaffle_time_to_fence_host_seconds",
            "From when a host was found to be lost until it was proved off.",
            registry=self.registry,
            buckets=RECOVER_BUCKETS,
        )
        self.alert_delivery = Histogram(
            "yaffle_time_to_deliver_alert_seconds",
            "From the failure of a host until an endpoint accepted it.",
            ["endpoint"],
            registry=self.registry,
            buckets=RECOVER_BUCKETS,
        )
        self.hosts = self._gauge(
            "yaffle_hosts", "Hosts by what their monitors see of them.", ["state"]
        )
        for state in (*HostState, UNKNOWN_HOST):
            self.hosts.labels(state)

    def _of_engines(self) -> None:
        self.part_up = self._gauge(
            "yaffle_part_up", "1: this part of this process can do its work, 0: not.", ["part"]
        )
        self.disk_free = self._gauge(
            "yaffle_disk_free_bytes",
            "Room where the database file lies; NaN where it is a server.",
            [],
        )
        self.disk_free.set(math.nan)
        self.watches = self._gauge("yaffle_watches_held", "Clusters that this engine watches.", [])
        self.taken = self._counter(
            "yaffle_watches_taken", "Watches that this engine took, by who had them.", ["from"]
        )
        self.coverage = self._gauge(
            "yaffle_coverage_ratio",
            "Share of all nodes in clusters that some engine watches; the same in every engine.",
            [],
        )
        self.unwatched = self._gauge(
            "yaffle_unwatched_longest_seconds",
            "For how long some cluster has been watched by nobody; 0 while all are.",
            [],
        )
        self.sessions_lost = self._counter(
            "yaffle_sessions_lost", "Times this engine lost its lease and began anew.", []
        )
        self.database = self._gauge(
            "yaffle_database_available", "Whether the database answered when asked last.", []
        )

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)
