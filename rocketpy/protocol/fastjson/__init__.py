"""JSON in the dialect of fastjson 1.2.69: the functions that every user of it needs."""

from rocketpy.protocol.fastjson.codec import DEPTH_MAX, FrozenBean, dumps, loads, loads_integer_keys

__all__ = ["DEPTH_MAX", "FrozenBean", "dumps", "loads", "loads_integer_keys"]
