"""rocketpy: Apache RocketMQ 4.9 in Python, on Trio."""

__version__ = "0.1.0"
