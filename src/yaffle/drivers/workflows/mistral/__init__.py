"""Recovery by OpenStack's workflow service: the operator's workflow, one execution for each operation."""

from yaffle.drivers.workflows.mistral.driver import MistralWorkflow

__all__ = ["MistralWorkflow"]
