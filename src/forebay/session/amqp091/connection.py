"""A connection of AMQP 0.9.1, from connection.open-ok to connection.close.

The text and scope of errors are RabbitMQ's: the code decides whether the channel or the connection ends.
"""

from __future__ import annotations

from typing import final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.core.errors import (
    CONNECTION,
    INTERNAL,
    MALFORMED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    Later,
    PeerError,
    RequestError,
)
from forebay.core.options import Options
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal, Undecided
from forebay.directory.logins.login import Auth, LoginRefused
from forebay.directory.permissions import Rights
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.session.amqp091.channel import Channel
from forebay.session.amqp091.consume import on_consuming_method, timeout_text
from forebay.session.amqp091.deliver import Outlet
from forebay.session.amqp091.farewell import CLOSE_WAIT_US, STOPPING, Farewell, say_farewell, unexpected_method
from forebay.session.amqp091.handshake import has_capability
from forebay.session.amqp091.modes import on_mode_method
from forebay.session.amqp091.publish import ConnectionState
from forebay.session.amqp091.topology import on_topology_method
from forebay.session.login import Amqp091Login
from forebay.session.meter import points_of
from forebay.session.session import Session
from forebay.session.shared.renewal import needs_proof, renew_rights
from forebay.session.shared.unsettled import REJECT, RETURN, RETURN_FAILED
from forebay.session.traffic import Traffic
from forebay.wire.amqp091.codec import (
    BODY,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    Reader,
    check_kind,
    frame_end,
    frame_wanted,
    put_method,
)
from forebay.wire.amqp091.methods import (
    BASIC_ACK,
    BASIC_CANCEL_OK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_RECOVER,
    BASIC_RECOVER_ASYNC,
    BASIC_RECOVER_OK,
    BASIC_REJECT,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_ERROR,
    CHANNEL_FLOW,
    CHANNEL_FLOW_OK,
    CHANNEL_OPEN,
    CHANNEL_OPEN_OK,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    CONNECTION_OPEN_OK,
    CONNECTION_UPDATE_SECRET,
    CONNECTION_UPDATE_SECRET_OK,
    HARD,
    UNEXPECTED_FRAME,
    put_blocked,
    put_cancel,
    put_close,
    reply,
    reply_text,
)


@final
class Amqp091Session(Session):
    """One AMQP 0.9.1 connection.

    current   the channel of the last frame where its frames may go the short way; `current_number` is its number
    begun     position of the frame that is being handled; `after` is where the next begins if this one is wrong
    cause     the method that is being handled
    """

    def __init__(
        self, session_id: i64, login: Amqp091Login, vhost: VhostContract, rights: Rights, auth: Auth, options: Options
    ) -> None:
        super().__init__(session_id, login, vhost, rights)
        self.auth = auth
        self.login = login
        self.link = ConnectionState(session_id, login, vhost, rights, self.out, self.parts, options, self.meter)
        self.channels: dict[int, Channel] = {}
        self.channels_max: i64 = login.channels_max
        self.heartbeat_us: i64 = login.heartbeat_s * US_PER_S
        self.farewell: Farewell | None = None  # we have closed the connection
        self.blocked_reason = ""  # what the client was told
        self.outlets: dict[int, Outlet] = {}
        self.acked: list[Channel] = []
        self.current: Channel | None = None
        self.current_number: i64 = -1
        self.after: i64 = 0
        self.begun: i64 = 0
        self.cause: i64 = 0
        self.released = False
        self.renewing = False  # the client proves again who it is
        self.heard = True
        self.heard_us: i64 = 0
        self.sent_us: i64 = 0
        put_method(self.out, 0, CONNECTION_OPEN_OK, b"\0")

    # ---- octets in

    def receive(self, data: bytes) -> int:
        self.heard = True
        self.meter.begin()
        if self.is_proving():
            return 0
        used: i64 = 0
        while not self.closing and self.farewell is None:
            try:
                used = self.read_frames(data, used)
                self.after = used
                if self.link.extensions:
                    self.extend_leases()
                break
            except LoginRefused as error:
                self.refuse_login(error)
            except (Undecided, Later) as error:
                self.put_off(self.auth, error)
                used = self.begun
                break
            except (PeerError, RequestError) as error:
                if error.reason == REFUSED:
                    self.note_denied(self.cause == BASIC_PUBLISH, error.text)
                self.fail(error.reason, error.text, error.scope)
            used = self.after
        if self.acked:
            self.apply_acks()
        if self.closing:
            return len(data)
        farewell = self.farewell
        if farewell is not None:
            used = farewell.hear(data, used, self.out)
            self.closing = farewell.over
        return int(used)

    def wanted(self, rest: bytes) -> int:
        return 0 if self.farewell is not None else int(frame_wanted(rest))

    def read_frames(self, data: bytes, pos: i64) -> i64:
        """Handle the whole frames from `pos` on; the position after them."""
        size = i64(len(data))
        if self.link.joining is not None:
            self.cause, self.after, self.begun = BASIC_PUBLISH, pos, pos
            self.link.finish_long()
        while pos + 8 <= size:
            octets_max = self.link.frame_octets_max - FRAME_OVERHEAD
            octets = i64(read_i32_be(data, pos + 3))
            end = pos + 7 + octets
            if octets < 0 or octets > octets_max or end >= size or data[end] != FRAME_END:
                self.after, self.cause = size, 0
                if frame_end(data, pos, self.link.frame_octets_max) == 0:
                    return pos
            self.after = end + 1
            self.begun = pos
            kind = data[pos]
            number = i64(data[pos + 1]) << 8 | i64(data[pos + 2])
            channel = self.current
            if channel is None or number != self.current_number:
                channel = self.select(number)
            if channel is None:
                self.on_other_frame(kind, number, data, pos + 7, end)
                if self.closing or self.farewell is not None or self.is_proving():
                    return self.after
            elif kind == METHOD:
                if octets < 4:
                    raise PeerError(MALFORMED, f"method frame of {octets} octets")
                method = i64(read_i32_be(data, pos + 7)) & 0xFFFFFFFF
                self.cause = method
                if channel.publisher.expect:
                    raise PeerError(UNEXPECTED_FRAME, "method frame where a part of a message must come")
                if method == BASIC_PUBLISH:
                    pos = channel.publisher.publish(data, pos + 11, end)
                    continue
                if method == BASIC_ACK and octets == 13:
                    channel.ack(read_i64_be(data, pos + 11), data[pos + 19] & 1 != 0)
                else:
                    self.on_method(channel, method, Reader(data, pos + 11, end, self.link.table_depth_max))
            elif kind == BODY:
                self.cause = BASIC_PUBLISH
                channel.publisher.on_body(data[pos + 7 : end])
                if self.link.long is not None:
                    self.join_body(self.link.join())
                    return self.after
            elif kind == HEADER:
                self.cause = BASIC_PUBLISH
                channel.publisher.on_header(data, pos + 7, end)
            else:
                self.cause = 0
                check_kind(kind)
                raise PeerError(UNEXPECTED_FRAME, f"frame of type {kind} on channel {number}")
            pos = self.after
        self.after = size
        self.cause = 0
        frame_end(data, pos, self.link.frame_octets_max)  # of a frame that has only begun, its head must be in order
        return pos

    def select(self, number: i64) -> Channel | None:
        """Make the channel of that number current; None if its frames go the long way."""
        channel = self.channels.get(number)
        if channel is None or channel.ignoring:
            self.current = None
            self.current_number = -1
            return None
        self.current = channel
        self.current_number = number
        return channel

    def on_other_frame(self, kind: i64, number: i64, data: bytes, start: i64, end: i64) -> None:
        """A frame of the connection itself, or of a channel that is not open."""
        self.cause = 0
        check_kind(kind)
        if kind == HEARTBEAT:
            if number:
                raise PeerError(UNEXPECTED_FRAME, f"heartbeat on channel {number}")
            return
        if end - start < 4 and kind == METHOD:
            raise PeerError(MALFORMED, f"method frame of {end - start} octets")
        if number == 0:
            if kind != METHOD:
                raise PeerError(UNEXPECTED_FRAME, f"frame of type {kind} on channel {number}, which has only methods")
            self.cause = i64(read_i32_be(data, start)) & 0xFFFFFFFF
            self.on_connection_method(self.cause, Reader(data, start + 4, end, self.link.table_depth_max))
            return
        channel = self.channels.get(number)
        method = i64(read_i32_be(data, start)) & 0xFFFFFFFF if kind == METHOD else 0
        if channel is None:
            self.cause = method
            if method != CHANNEL_OPEN:
                raise PeerError(CHANNEL_ERROR, f"expected 'channel.open' on channel {number}")
            self.meter.start(points_of(method))
            self.on_channel_open(number)
        elif method == CHANNEL_CLOSE_OK:
            del self.channels[number]
        elif method == CHANNEL_CLOSE:
            # Both sides closed at once: the client's answer to our close is still to come.
            put_method(self.out, number, CHANNEL_CLOSE_OK, b"")

    # ---- the connection

    def on_connection_method(self, method: i64, args: Reader) -> None:
        if method == CONNECTION_CLOSE:
            put_method(self.out, 0, CONNECTION_CLOSE_OK, b"")
            self.release()
            self.closing = True
        elif method == CONNECTION_UPDATE_SECRET:
            self.on_update_secret(args.long_string())
        else:
            raise unexpected_method(method)

    def proven(self) -> None:
        proof = self.proof
        assert proof is not None
        self.proof = None
        if self.closing or self.farewell is not None or not self.renewing:
            return  # or what needed the answer comes again
        self.renewing = False
        try:
            principal = self.auth.conclude(proof, self.context.loopback)
            self.auth.note_login(int(self.id), principal.user)
            self.renewed(principal)
        except LoginRefused as error:
            self.refuse_login(error)

    def renewed(self, principal: Principal) -> None:
        """The client has proven again who it is: from here on it may do what the new token says."""
        renew_rights(self, principal)
        put_method(self.out, 0, CONNECTION_UPDATE_SECRET_OK, b"")

    def refuse_login(self, error: LoginRefused) -> None:
        """Close, as the client could not prove again who it is."""
        self.auth.note_refusal(int(self.id), error)
        self.reason = error.detail
        self.close(NOT_ALLOWED, "New secret was refused by one of the backends")

    def on_update_secret(self, secret: bytes) -> None:
        """The client's password has changed, or its token was renewed."""
        if not needs_proof(self):
            put_method(self.out, 0, CONNECTION_UPDATE_SECRET_OK, b"")
            return
        user = self.principal.user
        password = secret.decode("utf-8", "surrogateescape")
        self.proof = self.auth.begin(int(self.id), user, password)
        self.renewing = self.proof is not None
        if self.proof is None:
            self.renewed(self.auth.check(user, password, self.context.loopback))

    def is_publisher(self) -> bool:
        return self.link.publishes

    def blocked(self, reason: str) -> None:
        if self.farewell is not None or not self.link.publishes or bool(reason) == bool(self.blocked_reason):
            return
        self.blocked_reason = reason
        if self.can("connection.blocked"):
            put_blocked(self.out, reason.encode())

    def fail(self, reason: str, text: str, scope: str) -> None:
        """Close the channel, or the connection: as the code says, unless the error is of the connection anyway."""
        code = reply(reason)[0]
        channel = self.current
        if channel is None or code in HARD or scope == CONNECTION:
            self.reason = text
            self.close(reason, text)
            return
        self.close_channel(channel, reason, text)

    def close_channel(self, channel: Channel, reason: str, text: str) -> None:
        code, name = reply(reason)
        channel.release()
        channel.ignoring = True
        self.select(channel.number)
        put_close(self.out, channel.number, CHANNEL_CLOSE, code, reply_text(name, text), self.cause)

    def close(self, reason: str, text: str) -> None:
        """Close the connection; the client still has to say that it knows."""
        self.farewell = say_farewell(self.out, reason, text, self.cause, self.link.frame_octets_max)
        self.heard_us = 0
        self.release()

    def can(self, capability: str) -> bool:
        """Return whether the client has said that it knows this."""
        return has_capability(self.login.client, capability)

    def release(self) -> None:
        """Give back everything, once."""
        if self.released:
            return
        self.released = True
        for channel in list(self.channels.values()):
            channel.release()
        self.channels = {}
        self.outlets = {}
        self.current = None
        self.acked = []
        self.link.published = []
        self.link.waiting = []
        self.vhost.session_closed(self.id)

    # ---- methods of a channel

    def on_method(self, channel: Channel, method: i64, args: Reader) -> None:
        self.meter.start(points_of(method))
        if self.acked:
            self.apply_acks()
        if method == BASIC_ACK:
            channel.ack(args.longlong(), args.octet() & 1 != 0)
        elif method == BASIC_NACK:
            tag = args.longlong()
            bits = args.octet()
            channel.settle(tag, bits & 1 != 0, RETURN if bits & 2 else REJECT)
        elif method == BASIC_REJECT:
            channel.settle(args.longlong(), False, RETURN_FAILED if args.octet() & 1 else REJECT)
        elif method in (BASIC_RECOVER, BASIC_RECOVER_ASYNC):
            if not args.octet() & 1:
                raise PeerError(NOT_IMPLEMENTED, "requeue=false")
            channel.recover()
            if method == BASIC_RECOVER:
                put_method(self.out, channel.number, BASIC_RECOVER_OK, b"")
        elif not (
            on_consuming_method(self, channel, method, args)
            or on_mode_method(self, channel, method, args)
            or on_topology_method(self, channel, method, args)
        ):
            self.on_channel_method(channel, method, args)

    def on_channel_method(self, channel: Channel, method: i64, args: Reader) -> None:
        if method == CHANNEL_CLOSE:
            channel.release()
            del self.channels[channel.number]
            self.current = None
            put_method(self.out, channel.number, CHANNEL_CLOSE_OK, b"")
        elif method == CHANNEL_FLOW:
            if not args.octet() & 1:
                raise PeerError(NOT_IMPLEMENTED, "active=false")
            put_method(self.out, channel.number, CHANNEL_FLOW_OK, b"\1")
        elif method in (CHANNEL_FLOW_OK, BASIC_CANCEL_OK):
            return
        elif method == CHANNEL_OPEN:
            raise PeerError(CHANNEL_ERROR, "second 'channel.open' seen")
        else:
            raise PeerError(NOT_IMPLEMENTED, f"method {method >> 16}.{method & 0xFFFF}")

    def on_channel_open(self, number: i64) -> None:
        count = len(self.channels)
        if count >= self.channels_max > 0:
            raise PeerError(
                NOT_ALLOWED,
                f"number of channels opened ({count}) has reached the negotiated channel_max ({self.channels_max})",
            )
        self.rights.usage.check_channel(self.rights.user, int(self.id), len(self.channels))
        self.link.past.channels += 1
        self.channels[number] = Channel(self.link, number, self.outlets, self.acked)
        put_method(self.out, number, CHANNEL_OPEN_OK, b"\0\0\0\0")

    def extend_leases(self) -> None:
        """Do what was asked for of messages that their delivery tags name."""
        extensions = self.link.extensions
        while extensions:
            wanted = extensions.pop(0)
            channel = self.select(wanted.channel)
            if channel is not None:
                self.cause = BASIC_PUBLISH
                channel.extend(wanted)

    def apply_acks(self) -> None:
        """Let the queues know of acknowledgements that were only counted."""
        for channel in self.acked:
            channel.apply_acks()
        self.acked.clear()

    # ---- what the server calls

    def deliver(self, delivery: Delivery) -> None:
        outlet = self.outlets.get(delivery.consumer.id)
        if outlet is not None:
            self.channels[outlet.channel].deliver(outlet, delivery)

    def cancelled(self, consumer: Consumer) -> None:
        outlet = self.outlets.get(consumer.id)
        if outlet is None:
            return
        channel = self.channels[outlet.channel]
        notify = self.can("consumer_cancel_notify")
        if (consumer.timed_out or consumer.lost) and not notify:
            self.cause = 0
            self.close_channel(channel, PRECONDITION, consumer.lost or timeout_text(channel.number, consumer))
            return
        if channel.lose_outlet(outlet, consumer.tag) and notify:
            put_cancel(self.out, outlet.channel, consumer.tag)

    def end_turn(self, lsn: int, durable: int) -> None:
        self.rights.usage.note_channels(int(self.id), len(self.channels))
        published = self.link.published
        if published:
            for publisher in published:
                publisher.end_turn(lsn, durable)
            published.clear()
        if self.link.committed:
            self.link.committed = False
            self.hold_lsn = max(self.hold_lsn, lsn)

    def on_durable(self, durable: int) -> None:
        for publisher in self.link.waiting:
            publisher.on_durable(durable)
        self.link.waiting = [publisher for publisher in self.link.waiting if publisher.confirms]

    def waiting(self) -> bool:
        return len(self.link.waiting) > 0

    def tick(self, now_us: int) -> None:
        now: i64 = now_us
        if self.heard or self.unread or self.heard_us == 0:
            self.heard = False
            if self.farewell is None or self.heard_us == 0:
                self.heard_us = now
        silent = now - self.heard_us
        if self.farewell is not None:
            if silent > CLOSE_WAIT_US:
                self.closing = True
        elif self.heartbeat_us:
            if silent > 2 * self.heartbeat_us:
                self.reason = f"missed heartbeats from client, timeout: {self.heartbeat_us // US_PER_S}s"
                self.closing = True
            elif now - self.sent_us >= self.heartbeat_us >> 1:
                self.sent_us = now
                self.out.write(HEARTBEAT_FRAME)

    def taken_over(self) -> None:
        self.close(TAKEN_OVER, "another connection took this one's place")

    def shut_down(self) -> None:
        if self.farewell is None:
            self.cause = 0
            self.close(TIMED_OUT, STOPPING)

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing and self.farewell is None:
            self.cause = 0
            self.close(INTERNAL if is_ours else TIMED_OUT, text)

    def closed(self) -> None:
        self.release()

    def describe(self) -> dict[str, object]:
        login = self.login
        return {
            "protocol": "AMQP 0.9.1",
            "user": self.principal.user,
            "client": login.client,
            "mechanism": login.mechanism,
            "channels_max": login.channels_max,
            "frame_octets_max": login.frame_octets_max,
            "heartbeat_s": login.heartbeat_s,
            "channels": len(self.channels),
            "consumers": len(self.outlets),
        }

    def channel_count(self) -> int:
        return len(self.channels)

    def published(self) -> int:
        found = Traffic()
        self.add_traffic(found)
        return int(found.received)

    def add_traffic(self, found: Traffic) -> None:
        found.add(self.link.past)
        for channel in self.channels.values():
            if not channel.ignoring:
                found.add(channel.traffic())

    def describe_channels(self) -> list[dict[str, object]]:
        return [channel.describe() for channel in self.channels.values()]
