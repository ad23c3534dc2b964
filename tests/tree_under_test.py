"""The tree under test, for the programs that tests start.

The interpreter of a virtual environment imports the checkout that is installed there. In another worktree the tests
would be of one tree and their programs of the other, so each process of pytest names its own tree in PYTHONPATH. A
program that must not see it, as a user's who has installed a wheel, gets an environment without that variable.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_NAME = "PYTHONPATH"


def lead_to_tree() -> None:
    """Put the tree at the begin of PYTHONPATH, which what is started inherits."""
    others = [each for each in os.environ.get(_NAME, "").split(os.pathsep) if each and each != str(ROOT)]
    os.environ[_NAME] = os.pathsep.join([str(ROOT), *others])
