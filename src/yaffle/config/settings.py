"""The whole tree of settings, and which of its sources wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from yaffle.config.faults import PREFIX, Origin
from yaffle.config.sections import (
    AuditSettings,
    BudgetsSettings,
    CredentialsSettings,
    DatabaseSettings,
    EngineSettings,
    HealthcheckSettings,
    HostSenderSettings,
    HostsSettings,
    LocalProcessSettings,
    LogSettings,
    NetworkSettings,
    QuotaSettings,
    ReceiversSettings,
    RetentionSettings,
    ServerSettings,
)


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="YAFFLE_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    state_dir: Path = Field(
        default=Path("~/.local/state/yaffle"), description="Database, node records, workflow jobs."
    )
    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    engine: EngineSettings = EngineSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    network: NetworkSettings = NetworkSettings()
    local_process: LocalProcessSettings = LocalProcessSettings()
    receivers: ReceiversSettings = ReceiversSettings()
    credentials: CredentialsSettings = CredentialsSettings()
    quotas: QuotaSettings = QuotaSettings()
    retention: RetentionSettings = RetentionSettings()
    healthcheck: HealthcheckSettings = HealthcheckSettings()
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    notifiers: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: {"log": {"type": "log"}},
        description="Name → {type = …, and that driver's own settings}.",
    )
    hosts: HostsSettings = HostsSettings()
    host_monitors: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Who sees whether hosts live: name → {type = …, cloud = the one that the hosts are"
        " of, and that driver's own settings}.",
    )
    host_senders: dict[str, HostSenderSettings] = Field(
        default_factory=dict,
        description="Who may tell of failed hosts by signed JSON: name → {secret_file = …}.",
    )
    alerts: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Recovery controllers that are told of failed hosts: name → {type = …, responsible"
        " = true for the one whose acceptance settles a failure, and that driver's own settings}.",
    )
    drivers: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Driver's entry point name → its own settings."
    )

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def origin(self) -> Origin:
        """Return where they were read from, for messages."""
        return self._origin

    def read_from(self, origin: Origin) -> Self:
        """Note where they were read from."""
        self._origin = origin
        return self

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def database_url(self) -> str:
        """The database's URL, the default filled in."""
        return self.database.url or f"sqlite:///{self.state_dir / 'yaffle.db'}"

    @property
    def is_embedded(self) -> bool:
        """Whether the database is a file of this machine, which one engine holds alone."""
        return self.database_url.partition(":")[0].partition("+")[0].lower() == "sqlite"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, whose content arrives through `init`."""
        if isinstance(env_settings, EnvSettingsSource):
            # For clients YAFFLE_SERVER is a URL; only as JSON is it the section of that name.
            env_settings.env_vars = {
                name: value
                for name, value in env_settings.env_vars.items()
                if name.upper() != f"{PREFIX}SERVER" or is_table(value)
            }
        return (env_settings, init_settings)


class Merged(Settings):
    """Settings from which nothing is left to ask: flags win over the environment, too."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the values given, and no others: the environment has been read already."""
        return (init_settings,)


def is_table(text: str | None) -> bool:
    """Whether a variable holds a whole section as JSON."""
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False
