"""Replaces files of a few lines that belong to a program and not to its messages: settings, a table of names.

Rule: at every instant, after a crash too, the old or the new text is there. Everything here blocks.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from rocketpy.errors import StartError, StoreError
from rocketpy.properties_text import decode_properties_text, format_properties, rewritten_properties
from rocketpy.store.disk.interface import Disk, persist_text


def persist_small_file(disk: Disk, path: str, text: str) -> None:
    """Replace a file, durably and whole, in a directory that is made if it is missing.

    Raises ``StoreError``; the file is then as it was.
    """
    try:
        disk.make_directories(os.path.dirname(path))
    except StartError as error:  # what that is while starting; here one change is refused
        raise StoreError(str(error), path=path) from error
    persist_text(disk, path, text)


def rewrite_properties_file(disk: Disk, path: str, changes: Mapping[str, str], *, initial: Mapping[str, str]) -> None:
    """Change some keys of a file of settings and leave the rest of its text, comments and order, as it is now.

    A file that is not there gets the keys of ``initial``. Raises ``StoreError``; the file is then as it was.
    """
    if not disk.exists(path):
        persist_small_file(disk, path, format_properties(initial))
        return
    file = disk.open(path, read_only=True)
    try:
        text = decode_properties_text(file.read(0, file.size()))
    finally:
        file.close()
    persist_small_file(disk, path, rewritten_properties(text, changes))
