"""Moves ``trio-stubs`` aside in this environment.

``trio-typing`` installs them; they describe a Trio of years ago, mypy prefers them to Trio's own types, and with
mypy 1.11 or newer they crash its plugin. Run by the Makefile after each installation; harmless when repeated.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path


def main() -> None:
    """Rename the folder so that no tool takes it for a stub package."""
    stubs = Path(sysconfig.get_paths()["purelib"]) / "trio-stubs"
    if stubs.is_dir():
        hidden = stubs.with_name("trio_stubs_hidden")
        shutil.rmtree(hidden, ignore_errors=True)
        stubs.rename(hidden)


if __name__ == "__main__":
    main()
