"""The command line in a process that is forked from one which has imported all of it: no command pays for imports."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner

# All that commands import when they run.
import rocketpy.client.client
import rocketpy.client.diagnosis.doctor
import rocketpy.remoting.tls.contexts
import rocketpy.store.inspection.plain_files_disk
import rocketpy.store.inspection.repair.repair
import rocketpy.store.inspection.show.diverged
import rocketpy.store.inspection.show.dump
import rocketpy.store.inspection.show.export  # noqa: F401
from rocketpy.cli.__main__ import app, main

CliRunner().invoke(app, ["store", "verify", __file__])  # wrong use, for which the parser of options is loaded
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def run_command(arguments: Sequence[str], variables: Mapping[str, str], streams: Sequence[Path]) -> None:
    """Run ``rocketpy`` in a process of FORKS, with files for its standard streams."""
    for descriptor, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin = os.fdopen(0)  # multiprocessing has put another one there
    os.environ.clear()
    os.environ.update(variables)
    sys.argv[1:] = arguments
    main()
