"""Workflows that are services of the operator's, asked over HTTP."""

from yaffle.drivers.workflows.http.driver import HttpWorkflow

__all__ = ["HttpWorkflow"]
