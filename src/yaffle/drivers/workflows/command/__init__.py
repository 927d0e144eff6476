"""Workflows that are programs of the operator's, run on the engine's machine."""

from yaffle.drivers.workflows.command.driver import CommandWorkflow

__all__ = ["CommandWorkflow"]
