"""Every setting in one tree: TOML file, then environment (`YAFFLE_ENGINE__LEASE=10`), then flags.

Unknown keys are errors that name the key. The reference page is generated from these models.
"""

from __future__ import annotations

from yaffle.config.address import OFF, is_loopback, split_address
from yaffle.config.faults import Faults
from yaffle.config.loading import Unusable, load
from yaffle.config.sections import (
    AuditSettings,
    BudgetSettings,
    BudgetsSettings,
    DatabaseSettings,
    EngineSettings,
    HealthcheckSettings,
    HostsSettings,
    KeystoneSettings,
    LocalProcessSettings,
    LogSettings,
    NetworkSettings,
    QuotaSettings,
    ReceiversSettings,
    RetentionSettings,
    Section,
    ServerSettings,
)
from yaffle.config.settings import Settings

__all__ = [
    "OFF",
    "AuditSettings",
    "BudgetSettings",
    "BudgetsSettings",
    "DatabaseSettings",
    "EngineSettings",
    "Faults",
    "HealthcheckSettings",
    "HostsSettings",
    "KeystoneSettings",
    "LocalProcessSettings",
    "LogSettings",
    "NetworkSettings",
    "QuotaSettings",
    "ReceiversSettings",
    "RetentionSettings",
    "Section",
    "ServerSettings",
    "Settings",
    "Unusable",
    "is_loopback",
    "load",
    "split_address",
]
