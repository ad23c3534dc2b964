"""The bits of ``perm``: what a topic, a queue of a topic on one broker, or a whole broker may be used for.

Compatibility: ``PermName`` (4.9.8).
"""

from __future__ import annotations

PERM_INHERIT = 1
"""The topic is a model for automatic creation."""

PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = PERM_READ | PERM_WRITE
