"""rocketpy: Apache RocketMQ 4.9 in Python, on Trio."""

import os as _os

from rocketpy import compiled as _compiled

__version__ = "0.1.0"

BUILD = _compiled.find_build(__path__[0], _os.environ)
"""Which modules are compiled, chosen once: before any of them is imported."""

_compiled.use(BUILD, __path__[0])
