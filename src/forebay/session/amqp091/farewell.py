"""A client of AMQP 0.9.1 after our connection.close: only its close and close-ok are heard."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from forebay.core.errors import UNEXPECTED, PeerError
from forebay.wire.amqp091.codec import (
    BODY,
    FRAME,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    put_method,
)
from forebay.wire.amqp091.methods import CONNECTION_CLOSE, CONNECTION_CLOSE_OK, put_close, reply, reply_text

CLOSE_WAIT_US: Final = 5_000_000
STOPPING: Final = "broker forced connection closure with reason 'shutdown'"
CLOSE_OK_FRAME: Final = b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\xce"


@final
class Farewell:
    """The end of one connection.

    in_step  it is known where frames begin; after octets that were none, close-ok is known by its looks
    over     the client knows that the connection ends
    """

    def __init__(self, frame_octets_max: i64) -> None:
        self.octets_max: i64 = frame_octets_max - FRAME_OVERHEAD
        self.in_step = True
        self.over = False

    def hear(self, data: bytes, pos: i64, out: BytesWriter) -> i64:
        """Take frames in from `pos` on; the position after what was used."""
        size = i64(len(data))
        while self.in_step and pos + FRAME_OVERHEAD <= size:
            octets = i64(read_i32_be(data, pos + 3))
            if octets < 0 or octets > self.octets_max or data[pos] not in (METHOD, HEADER, BODY, HEARTBEAT):
                self.in_step = False
                break
            end = pos + 7 + octets
            if end >= size:
                return pos
            if data[end] != FRAME_END:
                self.in_step = False
                break
            if data[pos] == METHOD and octets >= 4 and data[pos + 1] == 0 and data[pos + 2] == 0:
                method = i64(read_i32_be(data, pos + 7)) & 0xFFFFFFFF
                if method == CONNECTION_CLOSE:
                    put_method(out, 0, CONNECTION_CLOSE_OK, b"")
                elif method == CONNECTION_CLOSE_OK:
                    self.over = True
                    return size
            pos = end + 1
        if self.in_step:
            return pos
        if data.find(CLOSE_OK_FRAME, pos) >= 0:
            self.over = True
            return size
        return max(pos, size - i64(len(CLOSE_OK_FRAME)))


def say_farewell(out: BytesWriter, reason: str, text: str, cause: i64, frame_octets_max: i64) -> Farewell:
    """Write connection.close; the connection ends when the client says that it knows: before, it could lose the text.

    cause  the method that is being handled, or 0
    """
    code, name = reply(reason)
    put_close(out, 0, CONNECTION_CLOSE, code, reply_text(name, text), cause)
    farewell = Farewell(frame_octets_max)
    farewell.in_step = reason != FRAME
    return farewell


def unexpected_method(method: i64) -> PeerError:
    """Return the error for a method of the connection that comes at the wrong time."""
    return PeerError(UNEXPECTED, f"method {method >> 16}.{method & 0xFFFF} is not expected on channel 0 now")
