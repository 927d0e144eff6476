"""Files of secrets, as the settings want them: for nobody else to read."""

from __future__ import annotations

from pathlib import Path


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write it in one piece: a server that reads it now and then must not see half of it, nor nothing."""
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.chmod(mode)
    return new.replace(path)
