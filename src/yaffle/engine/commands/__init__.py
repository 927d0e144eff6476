"""Commands: what people ask for, each as one transaction.

The API and the tests speak to `Commands` only; `by` is who asks. Every change writes an event with
who and why. The verbs live with their nouns; this file says which there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.commands.actions import Actions
from yaffle.engine.commands.adopt import Adoption
from yaffle.engine.commands.alerts import Alerts
from yaffle.engine.commands.clusters import Clusters
from yaffle.engine.commands.context import CommandContext
from yaffle.engine.commands.imports import Import, Imports
from yaffle.engine.commands.instance_ha import InstanceHa
from yaffle.engine.commands.nodes import Nodes
from yaffle.engine.commands.operators import PAUSE_MAX_S, Operators
from yaffle.engine.commands.policies import Policies
from yaffle.engine.commands.profiles import Profiles
from yaffle.engine.commands.receivers import Receivers
from yaffle.engine.commands.recoveries import Recoveries

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext

__all__ = ["Commands", "Import", "PAUSE_MAX_S"]


class Commands:
    """The verbs of users."""

    def __init__(self, ctx: EngineContext) -> None:
        context = CommandContext(ctx)
        self._of_documents(context)
        self._of_clusters(context)
        self._of_nodes(context)
        self._of_operators(context)

    def _of_documents(self, context: CommandContext) -> None:
        profiles = Profiles(context)
        self.validated_profile = profiles.validated
        self.create_profile = profiles.create_profile
        self.update_profile = profiles.update_profile
        self.delete_profile = profiles.delete_profile

        policies = Policies(context)
        self.parse_text = policies.parse_text
        self.parse_document = policies.parse_document
        self.create_policy = policies.create_policy
        self.update_policy = policies.update_policy
        self.rename_policy = policies.rename_policy
        self.delete_policy = policies.delete_policy

        imports = Imports(context)
        self.import_objects = imports.import_objects

    def _of_clusters(self, context: CommandContext) -> None:
        clusters = Clusters(context)
        self.cluster_create = clusters.cluster_create
        self.cluster_update = clusters.cluster_update
        self.cluster_delete = clusters.cluster_delete
        self.cluster_act = clusters.cluster_act
        self.cluster_op = clusters.cluster_op

        receivers = Receivers(context, clusters)
        self.receiver_create = receivers.receiver_create
        self.receiver_update = receivers.receiver_update
        self.receiver_delete = receivers.receiver_delete
        self.receiver_trigger = receivers.receiver_trigger

    def _of_nodes(self, context: CommandContext) -> None:
        nodes = Nodes(context)
        self.node_create = nodes.node_create
        self.node_update = nodes.node_update
        self.node_check = nodes.node_check
        self.node_op = nodes.node_op
        self.node_delete = nodes.node_delete
        self.node_mark = nodes.node_mark
        self.node_unmark = nodes.node_unmark

        recoveries = Recoveries(context)
        self.node_recover = recoveries.node_recover

        adoption = Adoption(context)
        self.node_adopt = adoption.node_adopt
        self.node_preview = adoption.node_preview

    def _of_operators(self, context: CommandContext) -> None:
        actions = Actions(context)
        self.action_cancel = actions.action_cancel

        operators = Operators(context)
        self.pause = operators.pause
        self.lift = operators.lift
        self.lift_stop = operators.lift_stop
        self.release = operators.release
        self.acknowledge = operators.acknowledge
        self.redeliver = operators.redeliver

        alerts = Alerts(context)
        self.host_failed = alerts.host_failed
        self.host_fence = alerts.host_fence
        self.host_unfence = alerts.host_unfence
        self.alert_retry = alerts.alert_retry
        self.alert_discard = alerts.alert_discard

        told = InstanceHa(context)
        self.segment_create = told.segment_create
        self.segment_update = told.segment_update
        self.segment_delete = told.segment_delete
        self.segment_host_create = told.segment_host_create
        self.segment_host_update = told.segment_host_update
        self.segment_host_delete = told.segment_host_delete
        self.notify = told.notify
        self.host_failure_told = told.host_failure_told
