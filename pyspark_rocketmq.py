"""Lets Spark find the ``rocketmq`` data source by itself: it looks into every top-level module named ``pyspark_*``.

Rule: importing this never raises, because one failing module makes every Python data source of the environment
unusable. When something is missing the reason goes to standard error and Spark says DATA_SOURCE_NOT_FOUND.
"""

from __future__ import annotations

import sys

try:
    from rocketpy.spark.source import RocketMQDataSource as DefaultSource
except ImportError as error:
    print(f"the Spark data source rocketmq is not available: {error}", file=sys.stderr)

__all__ = ["DefaultSource"]
