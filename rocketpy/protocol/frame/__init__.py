"""Frames of the remoting protocol: the names that readers and writers of frames use."""

from rocketpy.protocol.frame.codec import (
    FRAME_LENGTH_MAX,
    HEADER_LENGTH_MAX,
    Frame,
    FrameReader,
    decode_command,
    decode_frame,
    encode_frame,
)

__all__ = [
    "FRAME_LENGTH_MAX",
    "HEADER_LENGTH_MAX",
    "Frame",
    "FrameReader",
    "decode_command",
    "decode_frame",
    "encode_frame",
]
