"""The frames that one session of AMQP 1.0 writes."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.session.amqp10.windows import SERIAL_MASK, SessionWindows
from forebay.wire.amqp10.decoder import read_u32
from forebay.wire.amqp10.frames import put_frame
from forebay.wire.amqp10.outgoing import put_delivery, put_disposition, put_flow
from forebay.wire.amqp10.performatives import ROLE_RECEIVER, Flow
from forebay.wire.amqp10.values import Composite

OUTGOING_WINDOW: Final = SERIAL_MASK  # the broker does not bound what it sends but by credit


@final
class SessionOutput:
    """Writes the frames of one session, each with the windows as they are now.

    next_tag  number of the next delivery; its lowest 32 bits are the delivery-id
    """

    def __init__(self, out: BytesWriter, channel: i64, windows: SessionWindows) -> None:
        self.out = out
        self.channel: i64 = channel
        self.windows = windows
        self.next_tag: i64 = 0

    def put(self, performative: Composite) -> None:
        """Write a performative."""
        put_frame(self.out, self.channel, performative)

    def session_flow(self) -> Flow:
        """Return a flow that opens the incoming window again."""
        windows = self.windows
        windows.reopen()
        flow = Flow()
        flow.next_incoming_id = windows.next_incoming
        flow.incoming_window = windows.incoming
        flow.next_outgoing_id = windows.next_outgoing
        flow.outgoing_window = OUTGOING_WINDOW
        return flow

    def link_flow(self, handle: i64) -> Flow:
        """Return a flow of a link, whose state the link puts in."""
        flow = self.session_flow()
        flow.handle = handle
        return flow

    def put_flow(self, flow: Flow) -> None:
        """Write a flow."""
        put_flow(self.out, self.channel, flow)

    def put_credit(self, handle: i64, delivery_count: i64, credit: i64) -> None:
        """Write a flow that gives the client credit to send by a link."""
        flow = self.link_flow(handle)
        flow.delivery_count = delivery_count
        flow.link_credit = credit
        self.put_flow(flow)

    def put_outcome(self, delivery_id: i64, state: bytes) -> None:
        """Settle one delivery of the client with an encoded state."""
        put_disposition(self.out, self.channel, ROLE_RECEIVER, delivery_id, delivery_id, True, state)

    def settled_frames(self, handle: i64, payload: bytes, frame_octets_max: i64) -> deque[bytes]:
        """Return the frames of a message that the broker has made, as the next delivery, which is settled.

        Each takes one of the window when it is written.
        """
        delivery_id = self.next_tag & SERIAL_MASK
        self.next_tag += 1
        out = BytesWriter()
        put_delivery(out, self.channel, handle, delivery_id, b"", True, b"", payload, frame_octets_max)
        octets = out.getvalue()
        frames: deque[bytes] = deque()
        at: i64 = 0
        while at < len(octets):
            size = read_u32(octets, at)
            frames.append(octets[at : at + size])
            at += size
        return frames
