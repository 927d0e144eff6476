"""Settings of programs by name; a policy's author chooses a name, no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from yaffle.config.faults import quoted
from yaffle.integrations.driver_settings import Section, read_secret

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program. `argv` is fixed: nothing from a policy or a node ever becomes an argument."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    """Added to PATH, LANG, HOME, TMPDIR and YAFFLE_JOB: no more."""
    env_files: dict[str, Path]
    """Variable → file with its value (a secret), read at each start."""
    timeout_s: float
    """`timeout`: the most that a policy's own timeout may ask for."""
    in_place: bool
    """The operator's word that it cannot create a second copy, hence needs no fence."""
    max_output: int
    """Bytes kept of the end of stdout and of stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Section `drivers.COMMAND`."""

    enabled: bool
    commands: dict[str, Command]

    @classmethod
    def read(cls, section: Section) -> CommandSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        enabled = section.flag("enabled", default=False)
        commands = {name: _command(part) for name, part in section.sections("commands").items()}
        section.finish()
        return cls(enabled=enabled, commands=commands)


def _command(section: Section) -> Command:
    argv = section.texts("argv")
    if argv and not Path(argv[0]).is_absolute():
        section.wrong("argv", "must start with an absolute path")
    env, env_files = section.text_table("env"), section.text_table("env_files")
    for key, names in (("env", env), ("env_files", env_files)):
        for name in names:
            if not name.isidentifier() or not name.isascii():
                section.wrong(f"{key}.{quoted(name)}", "is not a variable's name")
    for name, path in env_files.items():
        _check_file(section, f"env_files.{quoted(name)}", Path(path))
    command = Command(
        argv=argv,
        env=env,
        env_files={name: Path(path) for name, path in env_files.items()},
        timeout_s=section.number("timeout", 600, low=0.1, high=86_400),
        in_place=section.flag("in_place", default=False),
        max_output=int(section.number("max_output", 16_384, low=256, high=1_048_576)),
    )
    section.finish()
    return command


def _check_file(section: Section, key: str, path: Path) -> None:
    if not path.is_absolute():
        section.wrong(key, "must be an absolute path")
    elif path.exists():
        # It is read when the program is run; what others may read is told now, and not at night.
        section.attempt(key, lambda: read_secret(path, section.place(key)), b"")
