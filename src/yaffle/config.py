"""Every setting in one tree: TOML file, then environment (`YAFFLE_ENGINE__LEASE=10`), then flags.

Unknown keys are errors that name the key. The reference page is generated from these models.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from yaffle.errors import ConfigError

Seconds = Annotated[float, Field(gt=0)]

PREFIX: Final = "YAFFLE_"
_OTHERS: Final = re.compile(
    # of the commands that ask a server, and the mark of what Yaffle itself has started
    r"YAFFLE_(SERVER|TOKEN|USER|PASSWORD|CONFIG|NODE_ID|PHYSICAL_ID|OPERATION_ID|JOB"
    # of the test suites
    r"|(SIM|CHAOS|ACCEPTANCE)_\w+"
    # what Kubernetes tells every container of a service that is called yaffle
    r"|SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_\w+)?)"
)
"""Variables that are no settings, and not misspelt either."""


OFF: Final = "off"
"""Instead of an address: do not listen."""


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
        description="File with bearer tokens, one a line. Off loopback, this or `users_file` is"
        " required; on it, without either, nobody has to say who they are.",
    )
    users_file: Path | None = Field(
        default=None,
        description="File with names and hashed passwords for HTTP basic; `yaffle user` writes it.",
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
        description="`sqlite:///PATH`, `postgresql://USER:PASSWORD@HOST/NAME` or"
        " `mariadb://USER:PASSWORD@HOST/NAME`; what follows a `?` goes to the driver. Default: the"
        " file `yaffle.db` in the state directory.",
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
    listen: str = Field(
        default="127.0.0.1:8778",
        description="HOST:PORT where `yaffle engine` answers `/health` and `/metrics`, and nothing"
        " else; `off` for nowhere. Who may ask is said in the section `server`. A second engine on"
        " one machine needs another port.",
    )

    @field_validator("listen")
    @classmethod
    def _host_and_port_or_off(cls, value: str) -> str:
        if value != OFF:
            split_address(value)
        return value


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


class QuotaSettings(Section):
    """How much there may be, so that one mistyped number does not fill the installation."""

    clusters: int = Field(default=10_000, gt=0, description="Clusters of one project.")
    nodes: int = Field(default=1000, gt=0, description="Nodes of one cluster.")


class RetentionSettings(Section):
    """How long history is kept (days)."""

    events: float = Field(default=30.0, gt=0, description="Events and decisions.")
    actions: float = Field(default=7.0, gt=0, description="Actions and their steps.")
    incidents: float = Field(default=365.0, gt=0, description="Incidents and proofs.")


class ReceiversSettings(Section):
    """Webhooks that start an action of a cluster; whoever has the URL may."""

    public_url: str | None = Field(
        default=None,
        description="How callers reach this server (`https://yaffle.example.org:8777`): the"
        " beginning of every webhook's URL. Default: as its creator reached it.",
    )
    burst: int = Field(
        default=10, gt=0, description="Triggers of one webhook at once after a quiet time."
    )
    per_minute: float = Field(
        default=60.0, gt=0, description="Triggers of one webhook a minute in the long run."
    )

    @field_validator("public_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://[^/?#\s@]+(/[^?#\s]*)?", value):
            raise ValueError("it is no URL such as https://yaffle.example.org:8777")
        return None if value is None else value.rstrip("/")


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
    receivers: ReceiversSettings = ReceiversSettings()
    quotas: QuotaSettings = QuotaSettings()
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
                if name.upper() != f"{PREFIX}SERVER" or _is_table(value)
            }
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


def is_loopback(host: str) -> bool:
    """Whether the host can only be this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    _refuse_unknown_variables(values)
    try:
        settings = Settings(**values)
        if flags:
            settings = _Merged(**_merged(settings.model_dump(), flags))
    except SettingsError as error:
        raise ConfigError(_no_json(str(error))) from None
    except ValidationError as error:
        raise ConfigError(
            "\n".join(
                f"{_origin(e['loc'], path)}: {'.'.join(map(str, e['loc']))}: {e['msg']}"
                f" (it is {e['input']!r})"
                for e in error.errors()
            )
        ) from None
    return settings


def _origin(place: tuple[int | str, ...], path: Path | None) -> str:
    """Return where a value came from: its variable, which wins, or the file."""
    variable = PREFIX + "__".join(map(str, place)).upper()
    return variable if variable in os.environ else str(path or "settings")


def _no_json(error: str) -> str:
    """Return which variables hold no JSON where JSON is needed; the library names only a field."""
    field = re.search(r'field "(\w+)"', error)
    start = PREFIX + (field[1].upper() if field else "")
    broken = [name for name in sorted(os.environ) if name.startswith(start) and not _is_json(name)]
    return (
        f"environment: {', '.join(broken) or start}: it is no JSON; a section or a list is JSON,"
        " a single setting YAFFLE_SECTION__KEY"
    )


def _is_json(variable: str) -> bool:
    try:
        json.loads(os.environ[variable])
    except ValueError:
        return False
    return True


def _is_table(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


# --- the environment -----------------------------------------------------------------------------


def _refuse_unknown_variables(values: Mapping[str, Any]) -> None:
    """Raise ConfigError naming each variable that looks like a setting and is none."""
    known = set(_variables(Settings))
    said = [str(values), *(v for k, v in os.environ.items() if k.startswith(PREFIX))]
    faults = []
    for name in sorted(os.environ):
        # A driver's `secret_env` may name any variable, also one of ours.
        strange = name.startswith(PREFIX) and not _OTHERS.fullmatch(name)
        if not strange or _is_setting(name, known) or any(name in text for text in said):
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else "; see docs/reference/settings.md"
        faults.append(f"environment: {name} is no setting{hint}")
    if faults:
        raise ConfigError("\n".join(faults))


def _is_setting(name: str, known: set[str]) -> bool:
    """Whether a variable is a setting, a whole section as JSON, or a driver's own."""
    free = name.startswith((f"{PREFIX}NOTIFIERS__", f"{PREFIX}DRIVERS__"))
    return free or name in known


def _variables(model: type[BaseModel], start: str = PREFIX) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield start + name.upper()
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _variables(kind, f"{start}{name.upper()}__")


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        result[key] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
