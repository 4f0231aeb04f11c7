"""The frames of AMQP 1.0 (part 2.3 of the standard), and a fast decoder for the performatives of every message.

    0  4  octets n of the frame, these included
    4  1  doff: the body begins at 4 * doff
    5  1  type: 0 AMQP, 1 SASL
    6  2  channel
    8     extended header up to the body, ignored
          body: a performative, and after a transfer its payload. Empty: a heartbeat

Transfers, dispositions and flows in the encodings that clients usually send are decoded without creating an object
for each value. Other encodings are decoded by `decode_performative`.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64

from forebay.core.errors import PeerError
from forebay.wire.amqp10.decoder import DEPTH_MAX, ValueReader, malformed, read_u32, value_end
from forebay.wire.amqp10.encoder import put_u32, put_value
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.performatives import (
    DISPOSITION,
    FLOW,
    PERFORMATIVE_NAMES,
    TRANSFER,
    Disposition,
    Flow,
    Transfer,
    decode_performative,
    read_performative,
)
from forebay.wire.amqp10.states import ACCEPTED, IS_ACCEPTED, IS_RELEASED, RELEASED, state_of
from forebay.wire.amqp10.values import (
    BINARY_8,
    BOOLEAN,
    DESCRIBED,
    FALSE,
    LIST_0,
    LIST_8,
    LIST_32,
    NULL,
    TRUE,
    UINT,
    UINT_0,
    UINT_SMALL,
    ULONG_SMALL,
    Composite,
    Symbol,
    Ulong,
)

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
PROTOCOL_HEADER_OCTETS: Final = 8

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1
FRAME_HEAD_OCTETS: Final = 8
FRAME_OCTETS_MIN: Final = 512  # smallest max-frame-size that a peer may request
EARLY_FRAME_OCTETS_MAX: Final = 4096  # limit before the open performative has set another
HEARTBEAT_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

FRAME: Final = "frame"  # reason of a PeerError: not a frame, so the start of the next frame is unknown

UNUSUAL: Final = -2  # the field has an encoding that only the general decoder reads


# ---- frames


def frame_end(data: bytes, start: i64, frame_octets_max: i64, kind: i64 = AMQP_FRAME) -> i64:
    """Return the position after the frame at `start`, or 0 if the frame is incomplete.

    Raises PeerError(FRAME) as soon as the head shows that the octets are not a frame of type `kind`.
    """
    size = i64(len(data))
    if start + 4 > size:
        return 0
    octets = read_u32(data, start)
    if octets < FRAME_HEAD_OCTETS or octets > frame_octets_max:
        raise PeerError(FRAME, f"frame of {octets} octets: at least 8, at most {frame_octets_max} are allowed")
    if start + FRAME_HEAD_OCTETS > size:
        return 0
    offset = 4 * i64(data[start + 4])
    if offset < FRAME_HEAD_OCTETS or offset > octets:
        raise PeerError(FRAME, f"the body of a frame of {octets} octets cannot begin at octet {offset}")
    if i64(data[start + 5]) != kind:
        raise PeerError(FRAME, f"frame of type {data[start + 5]}, not {kind}")
    end = start + octets
    return end if end <= size else 0


def frame_octets(rest: bytes) -> i64:
    """Return the length in octets of the frame at the start of `rest`, or 0 if its size field is incomplete."""
    return read_u32(rest, 0) if len(rest) >= 4 else 0


def body_at(data: bytes, start: i64) -> i64:
    """Return the position of the body of the complete frame at `start`. For a heartbeat that is the frame's end."""
    return start + 4 * i64(data[start + 4])


def channel_of(data: bytes, start: i64) -> i64:
    """Return the channel of the complete frame at `start`."""
    return i64(data[start + 6]) << 8 | i64(data[start + 7])


def performative_code(data: bytes, at: i64, end: i64) -> i64:
    """Return the descriptor of the performative at `at`, such as TRANSFER, or -1 if the standard does not define it.

    Raises PeerError(MALFORMED) if the value at `at` has no descriptor.
    """
    if at + 3 <= end and data[at] == DESCRIBED and data[at + 1] == ULONG_SMALL:
        return i64(data[at + 2])
    if at >= end or data[at] != DESCRIBED:
        raise malformed(at, "a performative is expected")
    descriptor = ValueReader(data, at + 1, end).value()
    if isinstance(descriptor, Ulong):
        return i64(descriptor.value) if descriptor.value <= 255 else -1
    if isinstance(descriptor, Symbol):
        return PERFORMATIVE_NAMES.get(descriptor.text, -1)
    return -1


@final
class PerformativeReader:
    """A fast decoder for the performatives of every message: transfers, flows and dispositions.

    transfer, flow, disposition  the one decoded last; the next call changes this object, or replaces it
    at, stop, count              position within the list of fields, end of the list, and number of fields
    """

    def __init__(self, depth_max: i64 = DEPTH_MAX) -> None:
        self.depth_max: i64 = depth_max
        self.transfer = Transfer()
        self.flow = Flow()
        self.disposition = Disposition()
        self.at: i64 = 0
        self.stop: i64 = 0
        self.count: i64 = 0

    def enter(self, data: bytes, at: i64, end: i64, code: i64) -> bool:
        """Move to the first field of a performative. Return False unless it is the usual encoding of `code`."""
        if at + 4 > end or data[at] != DESCRIBED or data[at + 1] != ULONG_SMALL or data[at + 2] != code:
            return False
        constructor = i64(data[at + 3])
        if constructor == LIST_8 and at + 6 <= end:
            self.at = at + 6
            self.stop = at + 5 + i64(data[at + 4])
            self.count = i64(data[at + 5])
        elif constructor == LIST_32 and at + 12 <= end:
            self.at = at + 12
            self.stop = at + 8 + read_u32(data, at + 4)
            self.count = read_u32(data, at + 8)
        else:
            return False
        return self.stop <= end and self.at <= self.stop

    def number(self, data: bytes) -> i64:
        """Decode a uint field. Return UNUSUAL if the field is anything else."""
        at = self.at
        code = i64(data[at])
        if code == UINT_SMALL:
            if at + 2 > self.stop:
                return UNUSUAL
            self.at = at + 2
            return i64(data[at + 1])
        if code == UINT_0:
            self.at = at + 1
            return 0
        if code == UINT:
            if at + 5 > self.stop:
                return UNUSUAL
            self.at = at + 5
            return i64(read_i32_be(data, at + 1)) & 0xFFFFFFFF
        return UNUSUAL

    def flag(self, data: bytes) -> i64:
        """Decode a boolean field as 0 or 1. Return UNUSUAL if the field is anything else."""
        at = self.at
        code = i64(data[at])
        if code == TRUE:
            self.at = at + 1
            return 1
        if code == FALSE:
            self.at = at + 1
            return 0
        if code == BOOLEAN and at + 2 <= self.stop and data[at + 1] <= 1:
            self.at = at + 2
            return i64(data[at + 1])
        return UNUSUAL

    # ---- transfer

    def read_transfer(self, data: bytes, at: i64, end: i64) -> i64:
        """Decode the transfer at `at` into `transfer`, and return the position of its payload.

        Raises PeerError(MALFORMED) if there is no transfer.
        """
        if self.enter(data, at, end, TRANSFER) and self.count <= 11 and self.fill_transfer(data):
            return self.stop
        reader = ValueReader(data, at, end, self.depth_max)
        read = read_performative(reader)
        if not isinstance(read, Transfer):
            raise malformed(at, "a transfer is expected")
        self.transfer = read
        return reader.pos

    def fill_transfer(self, data: bytes) -> bool:  # tidy: dispatcher, one branch for each field
        """Decode the fields of a transfer. Return False if one is in an unusual encoding, or missing."""
        read = self.transfer
        read.handle = ABSENT
        read.delivery_id = ABSENT
        read.delivery_tag = None
        read.message_format = ABSENT
        read.settled = False
        read.more = False
        read.rcv_settle_mode = ABSENT
        read.state = None
        read.resume = False
        read.aborted = False
        read.batchable = False
        stop = self.stop
        for index in range(self.count):
            if self.at >= stop:
                return False
            if data[self.at] == NULL:
                self.at += 1
            elif index == 2:
                at = self.at
                if data[at] != BINARY_8 or at + 2 > stop:
                    return False
                self.at = at + 2 + i64(data[at + 1])
                if self.at > stop:
                    return False
                read.delivery_tag = data[at + 2 : self.at]
            elif index <= 3:
                number = self.number(data)
                if number < 0:
                    return False
                if index == 0:
                    read.handle = number
                elif index == 1:
                    read.delivery_id = number
                else:
                    read.message_format = number
            elif index in (6, 7):
                return False
            else:
                flag = self.flag(data)
                if flag < 0:
                    return False
                if index == 4:
                    read.settled = flag == 1
                elif index == 5:
                    read.more = flag == 1
                elif index == 8:
                    read.resume = flag == 1
                elif index == 9:
                    read.aborted = flag == 1
                else:
                    read.batchable = flag == 1
        return self.at == stop and read.handle >= 0

    # ---- disposition

    def read_disposition(self, data: bytes, at: i64, end: i64) -> None:
        """Decode the disposition in the octets [at, end) into `disposition`.

        Raises PeerError(MALFORMED) if they hold anything else.
        """
        if self.enter(data, at, end, DISPOSITION) and self.stop == end and self.fill_disposition(data):
            return
        read = decode_performative(data, at, end, self.depth_max)
        if not isinstance(read, Disposition):
            raise malformed(at, "a disposition is expected")
        self.disposition = read

    def fill_disposition(self, data: bytes) -> bool:
        """Decode the fields of a disposition. Return False if one is in an unusual encoding, or missing."""
        read = self.disposition
        stop = self.stop
        if not 2 <= self.count <= 6 or self.at >= stop:
            return False
        role = self.flag(data)
        first = self.number(data) if role >= 0 and self.at < stop else UNUSUAL
        if first < 0:
            return False
        read.role = role == 1
        read.first = first
        read.last = first
        read.settled = False
        read.state = None
        read.batchable = False
        for index in range(2, self.count):
            if self.at >= stop:
                return False
            if data[self.at] == NULL:
                self.at += 1
            elif index == 2:
                last = self.number(data)
                if last < 0:
                    return False
                read.last = last
            elif index == 4:
                if not self.fill_state(data):
                    return False
            else:
                flag = self.flag(data)
                if flag < 0:
                    return False
                if index == 3:
                    read.settled = flag == 1
                else:
                    read.batchable = flag == 1
        return self.at == stop

    def fill_state(self, data: bytes) -> bool:
        """Decode the state of a disposition. Always returns True. Raises PeerError(MALFORMED) for a malformed state."""
        at = self.at
        if at + 4 <= self.stop and data[at] == DESCRIBED and data[at + 1] == ULONG_SMALL and data[at + 3] == LIST_0:
            if data[at + 2] == ACCEPTED:
                self.disposition.state = IS_ACCEPTED
                self.at = at + 4
                return True
            if data[at + 2] == RELEASED:
                self.disposition.state = IS_RELEASED
                self.at = at + 4
                return True
        end = value_end(data, at, self.stop)
        self.disposition.state = state_of(ValueReader(data, at, end, self.depth_max).value())
        self.at = end
        return True

    # ---- flow

    def read_flow(self, data: bytes, at: i64, end: i64) -> None:
        """Decode the flow in the octets [at, end) into `flow`. Raises PeerError(MALFORMED) for anything else."""
        if self.enter(data, at, end, FLOW) and self.stop == end and self.fill_flow(data):
            return
        read = decode_performative(data, at, end, self.depth_max)
        if not isinstance(read, Flow):
            raise malformed(at, "a flow is expected")
        self.flow = read

    def fill_flow(self, data: bytes) -> bool:
        """Decode the fields of a flow. Return False if one is in an unusual encoding, or missing."""
        read = self.flow
        stop = self.stop
        if not 4 <= self.count <= 11:
            return False
        read.next_incoming_id = ABSENT
        read.incoming_window = ABSENT
        read.next_outgoing_id = ABSENT
        read.outgoing_window = ABSENT
        read.handle = ABSENT
        read.delivery_count = ABSENT
        read.link_credit = ABSENT
        read.available = ABSENT
        read.drain = False
        read.echo = False
        read.properties = None
        for index in range(self.count):
            if self.at >= stop:
                return False
            if data[self.at] == NULL:
                self.at += 1
            elif index <= 7:
                number = self.number(data)
                if number < 0:
                    return False
                self.set_flow_number(index, number)
            elif index <= 9:
                flag = self.flag(data)
                if flag < 0:
                    return False
                if index == 8:
                    read.drain = flag == 1
                else:
                    read.echo = flag == 1
            else:
                return False
        return self.at == stop and min(read.incoming_window, read.next_outgoing_id, read.outgoing_window) >= 0

    def set_flow_number(self, index: i64, number: i64) -> None:
        """Set the number field of `flow` that has position `index` in the standard."""
        read = self.flow
        if index == 0:
            read.next_incoming_id = number
        elif index == 1:
            read.incoming_window = number
        elif index == 2:
            read.next_outgoing_id = number
        elif index == 3:
            read.outgoing_window = number
        elif index == 4:
            read.handle = number
        elif index == 5:
            read.delivery_count = number
        elif index == 6:
            read.link_credit = number
        else:
            read.available = number


# ---- writing


def put_frame_head(out: BytesWriter, octets: i64, channel: i64, kind: i64) -> None:
    """Append the head of a frame of `octets` octets, the head included."""
    put_u32(out, octets)
    out.append(2)
    out.append(int(kind))
    out.append(int(channel >> 8))
    out.append(int(channel & 255))


def put_frame(out: BytesWriter, channel: i64, body: Composite, kind: i64 = AMQP_FRAME) -> None:
    """Append a frame with one performative, or with the body of a SASL frame."""
    inner = BytesWriter()
    put_value(inner, body)
    put_frame_head(out, FRAME_HEAD_OCTETS + len(inner), channel, kind)
    out.write(inner.getvalue())


def encode_frame(channel: i64, body: Composite, kind: i64 = AMQP_FRAME) -> bytes:
    """Return a frame with one performative, or with the body of a SASL frame."""
    out = BytesWriter()
    put_frame(out, channel, body, kind)
    return out.getvalue()
