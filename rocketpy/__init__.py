"""rocketpy: Apache RocketMQ 4.9 in Python, on Trio."""

import os as _os
import sys as _sys

if _sys.version_info < (3, 11):  # noqa: UP036 - said before an old Python meets a syntax that it does not know
    raise ImportError(
        "rocketpy needs Python 3.11 or newer, this is %s: %s" % (_sys.version.split()[0], _sys.executable)  # noqa: UP031
    )

from rocketpy import compiled as _compiled

__version__ = "0.1.0"

BUILD = _compiled.find_build(__path__[0], _os.environ)
"""Which modules are compiled, chosen once: before any of them is imported."""

_compiled.use(BUILD, __path__[0])
