"""Detection of the other distribution that installs a top-level package called ``rocketpy``.

``rocketpy`` on PyPI is a rocket flight simulator. pip puts it and ours (``rocketpy-mq``) into one environment without a
word; removing one then breaks the other. This only looks at file names: importing either is not needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_OTHER = re.compile(r"rocketpy-[0-9][^/]*\.(dist|egg)-info\Z", re.IGNORECASE)


def other_rocketpy(search_path: Iterable[str]) -> str | None:
    """Return where the rocket simulator's metadata is, None when it is on no directory of ``search_path``."""
    for directory in search_path:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            if _OTHER.match(name):
                return os.path.join(directory, name)
    return None


def other_rocketpy_warning(search_path: Iterable[str]) -> str | None:
    """Return one sentence when the rocket simulator is in this environment too."""
    found = other_rocketpy(search_path)
    if found is None:
        return None
    return (
        "the package rocketpy of this environment is shared with the rocket flight simulator of the same name "
        f"({found}): one overwrites files of the other, so give rocketpy-mq an environment of its own"
    )
