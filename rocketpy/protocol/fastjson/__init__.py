"""JSON in the dialect of fastjson 1.2.69: the functions that every user of it needs."""

from rocketpy.protocol.fastjson.codec import (
    DEPTH_MAX,
    FrozenBean,
    dumps,
    loads,
    loads_answer,
    loads_integer_keys,
    loads_nested,
)

__all__ = ["DEPTH_MAX", "FrozenBean", "dumps", "loads", "loads_answer", "loads_integer_keys", "loads_nested"]
