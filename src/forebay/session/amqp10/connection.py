"""A connection of AMQP 1.0, from the broker's open to close (2.4)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.core.errors import (
    CHANNEL,
    INTERNAL,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    TOO_MANY,
    Later,
    PeerError,
    RequestError,
)
from forebay.core.options import Options
from forebay.core.units import US_PER_MS, US_PER_S
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import Auth, LoginRefused
from forebay.directory.permissions import Rights
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.session.amqp10.conditions import error_of, redirect_error
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.endpoint import SessionEndpoint
from forebay.session.amqp10.entry.opening import CHANNEL_MAX, open_answer
from forebay.session.amqp10.link import LinkError
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.servicebus.access import EntityAccess
from forebay.session.amqp10.servicebus.entity_sessions import SESSION_LOST
from forebay.session.login import Amqp10Login
from forebay.session.session import Session
from forebay.session.shared.renewal import renew_rights
from forebay.session.traffic import Traffic
from forebay.wire.amqp10.frames import (
    HEARTBEAT_FRAME,
    PerformativeReader,
    body_at,
    channel_of,
    frame_end,
    frame_octets,
    performative_code,
    put_frame,
)
from forebay.wire.amqp10.performatives import (
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    TRANSFER,
    Attach,
    Begin,
    Close,
    Detach,
    decode_performative,
)
from forebay.wire.amqp10.states import CONNECTION_FORCED, FRAMING_ERROR, NOT_ALLOWED, Error

CLOSE_WAIT_US: Final = 5_000_000
FRAME_POINTS: Final = 5  # of the meter: a frame that is no transfer, flow or disposition


@final
class Amqp10Session(Session):
    """One AMQP 1.0 connection.

    endpoints  its sessions, by channel
    begun      where the frame in hand begins, and `after` where the next one does
    current    session of the frame in hand; None for one of the connection
    touched    sessions that the turn's end concerns
    owing      sessions with messages to accept that are not on disk yet
    is_closed  the broker has closed the connection, and hears nothing but the client's close
    """

    def __init__(
        self, session_id: i64, login: Amqp10Login, vhost: VhostContract, rights: Rights, auth: Auth, options: Options
    ) -> None:
        super().__init__(session_id, login, vhost, rights)
        self.auth = auth
        self.login = login
        self.state = LinkContext(self, login, auth, options)
        self.reader = PerformativeReader(options.table_depth_max)
        self.endpoints: dict[int, SessionEndpoint] = {}
        self.frame_octets_max: i64 = options.amqp_frame_octets_max
        self.channel_max: i64 = min(CHANNEL_MAX, login.channel_max)
        self.idle_us: i64 = login.idle_ms * US_PER_MS
        self.silence_us: i64 = options.amqp_heartbeat_s * US_PER_S
        self.begun: i64 = 0
        self.after: i64 = 0
        self.current: SessionEndpoint | None = None
        self.touched: list[SessionEndpoint] = []
        self.owing: list[SessionEndpoint] = []
        self.is_closed = False
        self.released = False
        self.heard = True
        self.heard_us: i64 = 0
        self.sent_us: i64 = 0
        if login.early:
            self.repeat(login.early)
        else:
            put_frame(self.out, 0, open_answer(options, self.state.node, login.knows_rabbitmq))

    # ---- bytes in

    def receive(self, data: bytes) -> int:
        self.heard = True
        self.meter.begin()
        if self.is_proving():
            return 0
        used: i64 = 0
        while not self.closing:
            try:
                used = self.read_frames(data, used)
                break
            except (Undecided, Later) as error:
                self.put_off(self.auth, error)
                used = self.begun
                break
            except LinkError as error:
                self.end_link(error)
            except LoginRefused as error:
                self.refuse_login(error)
            except (PeerError, RequestError) as error:
                self.fail(error.reason, error.text, error.scope)
            used = self.after
        return len(data) if self.closing else int(used)

    def repeat(self, frames: bytes) -> None:
        """Read frames that the handshake has answered. Close if one of them cannot be taken after all."""
        used = self.receive(frames)
        links = len([each for each in self.endpoints.values() for _ in each.attached])
        self.out.truncate(0)
        if used < len(frames) or self.is_closed or links < self.state.handles:
            self.is_closed = False
            self.released = False
            self.close(TOO_MANY, "too many sessions, or links for more memory than the client may take")

    def wanted(self, rest: bytes) -> int:
        return int(frame_octets(rest))

    def read_frames(self, data: bytes, pos: i64) -> i64:
        """Handle the whole frames from `pos` on; return the position after them."""
        size = i64(len(data))
        while pos < size and not self.closing:
            self.begun = pos
            self.after = size
            self.current = None
            end = frame_end(data, pos, self.frame_octets_max)
            if end == 0:
                return pos
            self.after = end
            at = body_at(data, pos)
            if at < end:
                self.on_frame(channel_of(data, pos), data, at, end)
                if self.is_proving():
                    return end
            pos = end
        return pos

    def on_frame(self, channel: i64, data: bytes, at: i64, end: i64) -> None:
        """Handle the frame whose body is data[at:end]."""
        code = performative_code(data, at, end)
        if self.is_closed:
            self.closing = code == CLOSE
            return
        endpoint = self.endpoints.get(int(channel))
        if endpoint is None or endpoint.is_ending:
            self.on_other_frame(endpoint, channel, code, data, at, end)
            return
        self.current = endpoint
        if not endpoint.is_listed:
            endpoint.is_listed = True
            self.touched.append(endpoint)
        if code == TRANSFER:
            endpoint.on_transfer(data, at, end)
        elif code == DISPOSITION:
            endpoint.on_disposition(data, at, end)
        elif code == FLOW:
            endpoint.on_flow(data, at, end)
        elif code == CLOSE:
            decode_performative(data, at, end, self.state.depth_max)  # which has an error for what is none
            self.on_close()
        elif code == END:
            decode_performative(data, at, end, self.state.depth_max)
            endpoint.on_end()
            self.forget(endpoint)
        else:
            self.meter.start(FRAME_POINTS)
            read = decode_performative(data, at, end, self.state.depth_max)
            if isinstance(read, Attach):
                endpoint.on_attach(read)
            elif isinstance(read, Detach):
                endpoint.on_detach(read)
            else:
                self.current = None
                name = type(read).__name__.lower()
                raise PeerError(NOT_ALLOWED, f"{name} on channel {channel}, which has a session")

    def on_other_frame(
        self, endpoint: SessionEndpoint | None, channel: i64, code: i64, data: bytes, at: i64, end: i64
    ) -> None:
        """Handle a frame of the connection, or of a channel without a session."""
        if code == CLOSE:
            self.on_close()
        elif endpoint is not None:  # it is ending
            if code == END:
                self.forget(endpoint)
        elif code == BEGIN:
            self.on_begin(channel, data, at, end)
        else:
            decode_performative(data, at, end, self.state.depth_max)  # which has its own error for what is none
            if code == DETACH and self.state.access is not None:
                return  # Azure's Python client ends its session before the links of its nodes
            raise PeerError(NOT_ALLOWED, f"performative 0x{code:02x} on channel {channel}, which has no session")

    def on_begin(self, channel: i64, data: bytes, at: i64, end: i64) -> None:
        read = decode_performative(data, at, end, self.state.depth_max)
        assert isinstance(read, Begin)
        if channel > self.channel_max:
            raise PeerError(FRAMING_ERROR, f"begin on channel {channel}: must be at most {self.channel_max}")
        if read.remote_channel >= 0:
            raise PeerError(NOT_ALLOWED, f"begin: remote-channel {read.remote_channel}: the broker begins no session")
        self.meter.start(FRAME_POINTS)
        self.rights.usage.check_channel(self.rights.user, int(self.id), len(self.endpoints))
        self.state.past.channels += 1
        self.endpoints[int(channel)] = SessionEndpoint(self.state, self.reader, channel, read)

    def forget(self, endpoint: SessionEndpoint) -> None:
        """Drop a session that both sides have ended, and keep what it has counted."""
        self.state.past.add(endpoint.confirms.traffic)
        del self.endpoints[int(endpoint.channel)]

    def on_close(self) -> None:
        """Take the client's close, and answer it."""
        self.release()
        put_frame(self.out, 0, Close())
        self.closing = True

    # ---- errors

    def end_link(self, error: LinkError) -> None:
        """End the link that the client has used in a wrong way."""
        if error.reason == REFUSED:
            self.note_denied(error.link.is_sender, error.text)
        endpoint = self.current
        assert endpoint is not None
        endpoint.detach(error.link, error.reason, error.text)

    def fail(self, reason: str, text: str, scope: str) -> None:
        """End the session in hand, or the connection."""
        endpoint = self.current
        if endpoint is not None and scope == CHANNEL and not endpoint.is_ending:
            endpoint.end(reason, text)
            return
        if not self.is_closed:
            self.reason = text
        self.close(reason, text)

    def close(self, reason: str, text: str) -> None:
        """Close the connection; the client still has to say that it knows."""
        self.close_with(error_of(reason, text))

    def close_with(self, error: Error) -> None:
        """Close the connection with an error."""
        if self.is_closed or self.closing:
            return
        self.release()
        self.is_closed = True
        self.heard_us = 0
        put_frame(self.out, 0, Close(error))

    def release(self) -> None:
        """Give back everything, once."""
        if self.released:
            return
        self.released = True
        for endpoint in list(self.endpoints.values()):
            endpoint.release(True)
            self.state.past.add(endpoint.confirms.traffic)
        self.endpoints = {}
        self.touched = []
        self.owing = []
        self.vhost.session_closed(self.id)

    def proven(self) -> None:
        proof, renewal = self.proof, self.state.renewal
        assert proof is not None
        self.proof = None
        self.state.renewal = None
        if renewal is None or self.closing or self.is_closed:
            return  # what needed the answer comes again
        try:
            principal = self.auth.conclude(proof, self.context.loopback)
            self.auth.note_login(int(self.id), principal.user)
            renew_rights(self, principal)
        except LoginRefused as error:
            self.refuse_login(error)
            return
        renewal.answer_renewal()

    def refuse_login(self, error: LoginRefused) -> None:
        """Close, as the client could not prove again who it is."""
        self.auth.note_refusal(int(self.id), error)
        self.reason = error.detail
        self.close(REFUSED, "the token is refused")

    # ---- what the server calls

    def deliver(self, delivery: Delivery) -> None:
        link = self.state.receivers.get(delivery.consumer.id)
        if isinstance(link, SendingLink):
            if link.queue is None:
                replies = link.cut_replies(delivery)
                if replies is None:
                    return
                delivery = replies
            self.endpoints[int(link.output.channel)].deliveries.deliver(link, delivery)

    def cancelled(self, consumer: Consumer) -> None:
        link = self.state.receivers.get(consumer.id)
        if isinstance(link, SendingLink):
            self.endpoints[int(link.output.channel)].lose(link)

    def end_turn(self, lsn: int, durable: int) -> None:
        self.rights.usage.note_channels(int(self.id), len(self.endpoints))
        if self.touched:
            still: list[SessionEndpoint] = []
            for endpoint in self.touched:
                owed = len(endpoint.confirms.waiting) > 0
                endpoint.end_turn(lsn, durable)
                endpoint.is_listed = len(endpoint.asked) > 0
                if endpoint.is_listed:
                    still.append(endpoint)
                if not owed and endpoint.confirms.waiting:
                    self.owing.append(endpoint)
            self.touched = still
        if self.state.committed:
            self.state.committed = False
            self.hold_lsn = max(self.hold_lsn, lsn)

    def on_durable(self, durable: int) -> None:
        for endpoint in self.owing:
            endpoint.confirms.on_durable(durable)
        self.owing = [endpoint for endpoint in self.owing if endpoint.confirms.waiting]

    def waiting(self) -> bool:
        return len(self.owing) > 0

    def is_publisher(self) -> bool:
        return self.state.publishes

    def blocked(self, reason: str) -> None:
        pass  # the client has no credit for more than the broker takes, and is not read

    def tick(self, now_us: int) -> None:
        now: i64 = now_us
        if self.state.access is not None:
            self.detach_expired(self.state.access, now)
        if self.heard or self.unread or self.heard_us == 0:
            self.heard = False
            if not self.is_closed or self.heard_us == 0:  # a client that goes on talking is not waited for any longer
                self.heard_us = now
        silent = now - self.heard_us
        if self.is_closed:
            self.closing = self.closing or silent > CLOSE_WAIT_US
            return
        if self.silence_us and silent > self.silence_us:
            self.reason = f"the client was silent for more than {self.silence_us // US_PER_S} s"
            self.close(TIMED_OUT, self.reason)
        elif self.idle_us and now - self.sent_us >= self.idle_us >> 1:
            self.sent_us = now
            self.out.write(HEARTBEAT_FRAME)

    def detach_expired(self, access: EntityAccess, now_us: i64) -> None:
        """Detach the links of entities that no token gives access to any more, and those whose session lock is over."""
        has_expired = access.forget_expired(now_us)
        for endpoint in self.endpoints.values():
            for link in list(endpoint.attached.values()):
                if has_expired and link.entity and not access.covers(link.entity, now_us):
                    endpoint.detach(link, REFUSED, f"the token for entity '{link.entity}' has expired")
                elif isinstance(link, SendingLink) and link.has_lost_session(now_us):
                    endpoint.detach(link, SESSION_LOST, "the lock of the session was not renewed in time")

    def taken_over(self) -> None:
        self.close(TAKEN_OVER, "another connection took this one's place")

    def shut_down(self) -> None:
        self.close(CONNECTION_FORCED, "the broker stops")

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        self.close(INTERNAL if is_ours else CONNECTION_FORCED, text)

    def send_elsewhere(self, server: str) -> None:
        self.close_with(redirect_error("another node serves clients from here on", server))

    def closed(self) -> None:
        self.release()

    # ---- for people

    def describe(self) -> dict[str, object]:
        login = self.login
        return {
            "protocol": "AMQP 1.0",
            "user": self.principal.user,
            "client_id": login.container,
            "client": login.client,
            "mechanism": login.mechanism,
            "channels_max": int(self.channel_max),
            "frame_octets_max": login.frame_octets_max,
            "heartbeat_s": int(self.idle_us // US_PER_S),
            "channels": len(self.endpoints),
            "consumers": len(self.state.receivers),
        }

    def channel_count(self) -> int:
        return len(self.endpoints)

    def published(self) -> int:
        count = self.state.past.received
        for endpoint in self.endpoints.values():
            count += endpoint.confirms.traffic.received
        return int(count)

    def add_traffic(self, found: Traffic) -> None:
        found.add(self.state.past)
        for endpoint in self.endpoints.values():
            found.add(endpoint.confirms.traffic)

    def describe_channels(self) -> list[dict[str, object]]:
        return [endpoint.describe() for endpoint in self.endpoints.values()]

    def describe_sessions(self) -> list[dict[str, object]]:
        return [endpoint.describe_links() for endpoint in self.endpoints.values()]
