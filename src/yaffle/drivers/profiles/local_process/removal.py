"""Removing a tree in bounded time: a node's work files may be millions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def remove_tree(path: Path, *, keep_going: Callable[[], bool]) -> bool:
    """Remove everything at and below `path`, never following a link; False when time ran out."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    for _root, folders, files, descriptor in os.fwalk(path, topdown=False, follow_symlinks=False):
        for name in files:
            os.unlink(name, dir_fd=descriptor)
        for name in folders:
            _remove_folder(name, descriptor)
        if not keep_going():
            return False
    path.rmdir()
    return True


def _remove_folder(name: str, parent: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        # A link to a folder is listed among the folders.
        os.unlink(name, dir_fd=parent)
