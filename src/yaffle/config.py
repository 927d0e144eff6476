"""Every setting in one tree: TOML file, then environment (`YAFFLE_ENGINE__LEASE=10`), then flags.

Unknown keys are errors that name the key. The reference page is generated from these models.
"""

from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from yaffle.errors import ConfigError

Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """One table of the file; frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Section):
    """Where the API listens and who may speak to it."""

    listen: str = Field(
        default="127.0.0.1:8777", description="HOST:PORT of the API and its metrics."
    )
    token_file: Path | None = Field(
        default=None,
        description="File with bearer tokens, one a line. Required off loopback; optional on it.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names accepted in the Host header, besides loopback and `listen`.",
    )
    max_body: int = Field(default=1_048_576, gt=0, description="Largest request body (bytes).")

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        split_address(value)
        return value


class DatabaseSettings(Section):
    """Where facts are kept."""

    url: str | None = Field(
        default=None,
        description="Database URL. Default: sqlite file `yaffle.db` in the state directory.",
    )


class EngineSettings(Section):
    """How the engine watches and acts."""

    lease: Seconds = Field(default=10.0, description="Life of a lease without renewal (s).")
    workers: int = Field(
        default=64, gt=0, description="Actions carried out at once by this engine."
    )
    late: Seconds = Field(
        default=1.0, description="A loop later than this is blind for that while (s)."
    )
    clock_jump: Seconds = Field(
        default=2.0, description="A wall clock step larger than this resettles (s)."
    )
    poll: Seconds = Field(
        default=1.0, description="Pace at which changes by others are noticed (s)."
    )
    default_interval: Seconds = Field(
        default=10.0, description="Pace of planning without a policy (s)."
    )
    action_timeout: Seconds = Field(default=600.0, description="Bound of a create or delete (s).")


class BudgetSettings(Section):
    """What one scope may do at once and over time."""

    max_in_flight: int = Field(gt=0, description="Recoveries under way at once.")
    burst: int = Field(gt=0, description="Recoveries that may start at once after a quiet time.")
    per_hour: float = Field(gt=0, description="Recoveries an hour in the long run.")


class BudgetsSettings(Section):
    """Budgets shared by many clusters; a hundred small clusters together are still a storm."""

    total: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120),
        description="The whole installation.",
    )
    project: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120),
        description="Each project.",
    )
    domain: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=5, burst=10, per_hour=60),
        description="Each failure domain named by a policy.",
    )
    host: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=20, per_hour=120), description="Each host."
    )
    cluster: BudgetSettings = Field(
        default=BudgetSettings(max_in_flight=10, burst=10, per_hour=60), description="Each cluster."
    )


class NetworkSettings(Section):
    """Addresses that Yaffle may speak to on a user's behalf; checked at connect."""

    allow: tuple[str, ...] = Field(
        default=(), description="CIDRs; empty allows what is not denied."
    )
    deny: tuple[str, ...] | None = Field(
        default=None, description="CIDRs; default: link-local, where metadata services live."
    )

    @field_validator("allow", "deny")
    @classmethod
    def _cidrs(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in value or ():
            ipaddress.ip_network(text, strict=False)
        return value


class LocalProcessSettings(Section):
    """Nodes that are processes of this machine."""

    enabled: bool = Field(
        default=False, description="Whoever may create nodes may run commands as Yaffle's user."
    )


class RetentionSettings(Section):
    """How long history is kept (days)."""

    events: float = Field(default=30.0, gt=0, description="Events and decisions.")
    actions: float = Field(default=7.0, gt=0, description="Actions and their steps.")
    incidents: float = Field(default=365.0, gt=0, description="Incidents and proofs.")


class LogSettings(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level."
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, JSON elsewhere."
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
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    notifiers: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: {"log": {"type": "log"}},
        description="Name → {type = …, and that driver's own settings}.",
    )
    drivers: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Driver's entry point name → its own settings."
    )

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def database_url(self) -> str:
        """The database's URL, the default filled in."""
        return self.database.url or f"sqlite:///{self.state_dir / 'yaffle.db'}"

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
        return (env_settings, init_settings)


class _Merged(Settings):
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


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[V6]:PORT`; raise ValueError naming the fault."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8777")
    return host, int(port)


def load(path: Path | None, flags: dict[str, Any] | None = None) -> Settings:
    """Return the settings; `flags` (nested as the file is) win. Raise ConfigError naming each fault."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except OSError as error:
            raise ConfigError(f"--config {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
    try:
        settings = Settings(**values)
        if flags:
            settings = _Merged(**_merged(settings.model_dump(), flags))
    except ValidationError as error:
        where = path or "settings"
        raise ConfigError(
            "\n".join(
                f"{where}: {'.'.join(map(str, e['loc']))}: {e['msg']} (it is {e['input']!r})"
                for e in error.errors()
            )
        ) from None
    return settings


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        result[key] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
