"""The pair of links by which a client sends requests to `/management` and gets the answers."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.errors import INVALID, MALFORMED, NOT_ALLOWED, PRECONDITION, TOO_LARGE, PeerError, RequestError
from forebay.core.units import MS_PER_S
from forebay.queue.leases.lease import Delivery
from forebay.session.amqp10.addresses import MANAGEMENT
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.management.requests import (
    BAD_REQUEST,
    NO_CONTENT,
    NO_SUCH_VERB,
    Count,
    Management,
    ManagementAnswer,
)
from forebay.session.amqp10.outgoing.consumer_arguments import whole_number
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.windows import SERIAL_MASK, serial_difference
from forebay.session.shared.renewal import needs_proof, renew_rights
from forebay.wire.amqp10.decoder import ValueReader
from forebay.wire.amqp10.fields import ABSENT, code_of
from forebay.wire.amqp10.performatives import Flow, Transfer
from forebay.wire.amqp10.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ID,
    PROPERTIES,
    PROPERTY_FIELDS,
    SECTION_NAMES,
    SUBJECT,
    TO,
    put_section,
)
from forebay.wire.amqp10.values import Array, Described, FixedOctets, Map, Number, Symbol, Timestamp, Uint, Ulong, Uuid

REQUESTS_MAX: Final = 8
REQUEST_POINTS: Final = 100  # of the meter: as a declaration
ANSWERS_MAX: Final = 2  # times message_octets_max that answers may have which wait for credit
TOKENS: Final = "/auth/tokens"
HTTP_RESPONSE: Final = "http:response"


@final
class ManagementRequests(LinkEndpoint):
    """The link by which requests come. Each is answered by the link of the same name in the other direction."""

    def __init__(self, state: LinkContext, output: SessionOutput, name: str, handle: i64) -> None:
        super().__init__(name, handle, True)
        self.state = state
        self.output = output
        self.answers: ManagementResponses | None = None
        self.renewal_id: object = None
        self.management = Management(state.session, state.node, [state.node])

    def begin(self) -> None:
        self.write_flow()

    def write_flow(self) -> None:
        self.output.put_credit(self.handle, self.delivery_count, REQUESTS_MAX)

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        if transfer.aborted:
            self.complete()
            return
        if transfer.more:
            raise LinkError(self, TOO_LARGE, "a request must be one frame")
        if not transfer.settled:
            raise LinkError(self, INVALID, "transfer: settled: a request must be sent settled")
        answers = self.answers
        if answers is None or not answers.is_attached:
            raise LinkError(self, PRECONDITION, f"no link '{self.name}' for the answers is attached")
        context = self.state
        context.meter.start(REQUEST_POINTS)
        try:
            request = read_request(data, at, end, context.depth_max)
        except PeerError as error:
            raise LinkError(self, error.reason, error.text) from None
        if request.path == TOKENS:
            self.renew(answers, request)
        else:
            found = self.answer(request)
            context.committed = context.committed or found.is_committed
            answers.send(request.id, found)
        self.complete()

    def answer(self, request: ManagementRequest) -> ManagementAnswer:
        """Do what is asked for. Raises Later, Undecided, and nothing is done."""
        try:
            body = plain_body(request.body)
        except RequestError as error:
            return ManagementAnswer(BAD_REQUEST, error.text)
        return self.management.answer(request.verb, request.path, body)

    def complete(self) -> None:
        """Let the client send another request."""
        self.count_deliveries(1)
        self.write_flow()

    # ---- tokens

    def renew(self, answers: ManagementResponses, request: ManagementRequest) -> None:
        """Check a client's new token. Raises LoginRefused; the answer may have to wait for a proof."""
        token = request.body
        if request.verb != "PUT":
            answers.send(request.id, ManagementAnswer(NO_SUCH_VERB, f"subject '{request.verb}': {TOKENS} has PUT"))
            return
        if not isinstance(token, bytes):
            answers.send(request.id, ManagementAnswer(BAD_REQUEST, "body: must be the token, as binary"))
            return
        context = self.state
        session, auth = context.session, context.auth
        self.renewal_id = request.id
        if needs_proof(session):
            user, password = session.principal.user, token.decode("utf-8", "surrogateescape")
            session.proof = auth.begin(int(session.id), user, password)
            if session.proof is not None:
                context.renewal = self
                return
            renew_rights(session, auth.check(user, password, session.context.loopback))
        self.answer_renewal()

    def answer_renewal(self) -> None:
        answers = self.answers
        if answers is not None and answers.is_attached:
            answers.send(self.renewal_id, ManagementAnswer(NO_CONTENT))

    def on_flow(self, flow: Flow) -> None:
        if flow.echo:
            self.write_flow()

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("no queue is delivered by this link")

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        self.is_attached = False

    def describe(self) -> dict[str, object]:
        return {"target_address": MANAGEMENT, "credit": REQUESTS_MAX}


@final
class ManagementResponses(LinkEndpoint):
    """The link by which answers go, each settled.

    node     address of what answers
    reply_to address by which a client names the link in its requests; "" for none
    limit    delivery-count at which the client's credit ends
    waiting  answers for which there was no credit yet, of `octets` together
    frames   of the answer that is being sent, for which the session's window had no room yet
    """

    def __init__(
        self, state: LinkContext, output: SessionOutput, name: str, handle: i64, node: str, reply_to: str = ""
    ) -> None:
        super().__init__(name, handle, False)
        self.state = state
        self.output = output
        self.node = node
        self.reply_to = reply_to
        self.limit: i64 = 0
        self.waiting: deque[bytes] = deque()
        self.octets: i64 = 0
        self.frames: deque[bytes] = deque()

    def begin(self) -> None:
        pass

    def send(self, correlation: object, answer: ManagementAnswer) -> None:
        """Send an answer, as soon as the client has given credit for it."""
        payload = encode_answer(correlation, answer)
        if len(payload) > self.state.message_octets_max:
            text = f"the answer would have {len(payload)} bytes, more than message_octets_max"
            payload = encode_answer(correlation, ManagementAnswer(BAD_REQUEST, text))
        self.send_payload(payload)

    def send_payload(self, payload: bytes) -> None:
        """Send the message of an answer, as soon as the client has given credit for it."""
        self.waiting.append(payload)
        self.octets += len(payload)
        if len(self.waiting) > REQUESTS_MAX or self.octets > ANSWERS_MAX * self.state.message_octets_max:
            raise LinkError(self, PRECONDITION, "answers: the client gives no credit for them")
        self.flush()

    def flush(self) -> None:
        """Send what the client's credit and the session's window have room for."""
        windows = self.output.windows
        while windows.remote_incoming > 0:
            if self.frames:
                self.output.out.write(self.frames.popleft())
                windows.sent(1)
            elif self.waiting and serial_difference(self.limit, self.delivery_count) > 0:
                payload = self.waiting.popleft()
                self.octets -= len(payload)
                self.count_deliveries(1)
                self.frames = self.output.settled_frames(self.handle, payload, self.state.frame_octets_max)
            else:
                return

    def on_flow(self, flow: Flow) -> None:
        if flow.link_credit >= 0:
            seen = 0 if flow.delivery_count == ABSENT else flow.delivery_count
            self.limit = (seen + min(flow.link_credit, 1 << 30)) & SERIAL_MASK
        self.flush()
        if flow.drain:
            self.delivery_count = self.limit
        if flow.drain or flow.echo:
            answer = self.output.link_flow(self.handle)
            answer.delivery_count = self.delivery_count
            answer.link_credit = max(0, serial_difference(self.limit, self.delivery_count))
            answer.available = len(self.waiting)
            answer.drain = flow.drain
            self.output.put_flow(answer)

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        raise LinkError(self, NOT_ALLOWED, "transfer: the client is the receiver of this link")

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("no queue is delivered by this link")

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        self.is_attached = False
        self.waiting.clear()
        self.frames.clear()

    def describe(self) -> dict[str, object]:
        return {"source_address": self.node, "credit": int(max(0, serial_difference(self.limit, self.delivery_count)))}


def encode_answer(correlation: object, answer: ManagementAnswer) -> bytes:
    """Return the message of an answer to the request with this message-id."""
    out = BytesWriter()
    put_section(out, PROPERTIES, [None, None, None, str(answer.status), None, correlation])
    put_section(out, APPLICATION_PROPERTIES, Map([(HTTP_RESPONSE, "1.1")]))
    put_section(out, AMQP_VALUE, typed_body(answer.body))
    return out.getvalue()


@final
class ManagementRequest:
    """One request: its message-id, verb, path and body."""

    def __init__(self, id: object, verb: str, path: str, body: object) -> None:
        self.id = id
        self.verb = verb
        self.path = path
        self.body = body


def read_request(data: bytes, at: i64, end: i64, depth_max: i64) -> ManagementRequest:
    """Return the request in a message. Raises PeerError(MALFORMED).

    The sections may come in any order: RabbitMQ's Python client sends the body of a GET before the properties.
    """
    reader = ValueReader(data, at, end, depth_max)
    fields: list[object] = []
    body: object = None
    while reader.pos < end:
        section = reader.value()
        if not isinstance(section, Described):
            raise PeerError(MALFORMED, "a section of a message is expected")
        code = code_of(section, SECTION_NAMES)
        if code == PROPERTIES and isinstance(section.value, list):
            fields = section.value
        elif code == AMQP_VALUE:
            body = section.value
    fields = fields + [None] * PROPERTY_FIELDS
    verb, path = fields[SUBJECT], fields[TO]
    return ManagementRequest(
        fields[MESSAGE_ID], verb if isinstance(verb, str) else "", path if isinstance(path, str) else "", body
    )


def plain_body(value: object) -> object:
    """Return the body of a request with the values that AMQP 0.9.1's arguments have. Raises RequestError."""
    if isinstance(value, Map):
        table: dict[str, object] = {}
        for key, each in value.pairs:
            table[key.text if isinstance(key, Symbol) else str(key)] = plain_body(each)
        return table
    if isinstance(value, Array):
        return [plain_body(each) for each in value.items]
    if isinstance(value, list):
        return [plain_body(each) for each in value]
    if isinstance(value, Timestamp):
        return value.value // MS_PER_S
    if isinstance(value, Number):
        return whole_number(value, "body")
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Uuid):
        return value.text()
    return value.octets if isinstance(value, FixedOctets) else value


def typed_body(value: object) -> object:
    """Return the body of an answer as values of AMQP 1.0."""
    if isinstance(value, Count):
        return Ulong(value.value) if value.is_long else Uint(value.value)
    if isinstance(value, dict):
        pairs: list[tuple[object, object]] = []
        for key, each in value.items():
            pairs.append((key, typed_body(each)))
        return Map(pairs)
    if isinstance(value, list):
        return [typed_body(each) for each in value]
    return value


def pair_links(link: LinkEndpoint, other: LinkEndpoint | None) -> None:
    """Let the requests that come by one of two links of a name be answered by the other."""
    if isinstance(link, ManagementRequests) and isinstance(other, ManagementResponses):
        link.answers = other
    elif isinstance(link, ManagementResponses) and isinstance(other, ManagementRequests):
        other.answers = link
