"""The link by which a client sends requests to a node of the broker's own: `$cbs`, or `$management` of an entity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, PRECONDITION, TOO_LARGE, TOO_MANY, PeerError, RequestError
from forebay.queue.leases.lease import Delivery
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.management.link_pair import ManagementResponses
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.servicebus.node_requests import NodeRequest, read_node_request
from forebay.wire.amqp10.outgoing import ACCEPTED_STATE
from forebay.wire.amqp10.performatives import Flow, Transfer

REQUESTS_MAX: Final = 8
REQUEST_POINTS: Final = 100  # of the meter: as a declaration
RESPONSE_LINKS_MAX: Final = 256  # of one connection
FRAMES_MAX: Final = 4096  # of one request


class RequestNode(ABC):
    """A node that answers requests."""

    @abstractmethod
    def answer(self, request: NodeRequest, link: RequestLink) -> bytes | None:
        """Do what a request asks for, and return the message that answers it; None if that has to wait for a proof.

        Raises Later, Undecided, and nothing is done.
        """

    @abstractmethod
    def answer_renewal(self, request: NodeRequest) -> bytes:
        """Return the answer to the request that waited for a proof, which was right."""


def add_response_link(context: LinkContext, link: ManagementResponses) -> None:
    """Remember a link by which answers go, and forget those that are gone."""
    links = [each for each in context.responses if each.is_attached]
    if len(links) >= RESPONSE_LINKS_MAX:
        raise RequestError(TOO_MANY, f"attach: more than {RESPONSE_LINKS_MAX} links for answers")
    links.append(link)
    context.responses = links


def find_response_link(
    context: LinkContext, output: SessionOutput, node: str, reply_to: str
) -> ManagementResponses | None:
    """Return the link of a session that answers of a node go by: the one of that address, or else the last."""
    found: ManagementResponses | None = None
    for each in context.responses:
        if isinstance(each, ManagementResponses) and each.is_attached and each.output is output and each.node == node:
            if reply_to and each.reply_to == reply_to:
                return each
            found = each
    return found


@final
class RequestLink(LinkEndpoint):
    """One link by which requests to a node come.

    address  of the node
    parts    of a request that comes in several frames, of `octets` so far
    asking   request that waits for a proof
    """

    def __init__(
        self,
        context: LinkContext,
        output: SessionOutput,
        name: str,
        handle: i64,
        address: str,
        node: RequestNode,
    ) -> None:
        super().__init__(name, handle, True)
        self.context = context
        self.output = output
        self.address = address
        self.node = node
        self.parts: list[bytes] = []
        self.octets: i64 = 0
        self.asking: NodeRequest | None = None
        self.answers: ManagementResponses | None = None

    def begin(self) -> None:
        self.write_flow()

    def write_flow(self) -> None:
        self.output.put_credit(self.handle, self.delivery_count, REQUESTS_MAX)

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        if transfer.aborted:
            self.complete()
            return
        octets = end - at
        if self.octets + octets > self.context.message_octets_max or len(self.parts) >= FRAMES_MAX:
            raise LinkError(self, TOO_LARGE, f"a request of more than {self.context.message_octets_max} bytes")
        if transfer.more:
            self.parts.append(data[at:end])
            self.octets += octets
            self.context.vhost.memory.add(self.context.session.id, octets)
            return
        payload = data[at:end] if not self.parts else b"".join([*self.parts, data[at:end]])
        self.handle_request(payload)
        if not transfer.settled and transfer.delivery_id >= 0:
            self.output.put_outcome(transfer.delivery_id, ACCEPTED_STATE)
        self.complete()

    def handle_request(self, payload: bytes) -> None:
        """Answer a whole request. Raises Later, Undecided, and nothing is done."""
        context = self.context
        context.meter.start(REQUEST_POINTS)
        try:
            request = read_node_request(payload, 0, i64(len(payload)), context.depth_max)
        except PeerError as error:
            raise LinkError(self, error.reason, error.text) from None
        if request.id is None:
            raise LinkError(self, INVALID, "properties: message-id: a request must have one")
        answers = find_response_link(context, self.output, self.address, request.reply_to)
        if answers is None:
            raise LinkError(self, PRECONDITION, f"no link from '{self.address}' is attached for the answer")
        answer = self.node.answer(request, self)
        if answer is None:
            self.asking = request
            self.answers = answers
            context.renewal = self
        else:
            answers.send_payload(answer)

    def answer_renewal(self) -> None:
        request, answers = self.asking, self.answers
        self.asking = self.answers = None
        if request is not None and answers is not None and answers.is_attached:
            answers.send_payload(self.node.answer_renewal(request))

    def complete(self) -> None:
        """Let the client send another request."""
        self.forget_parts()
        self.count_deliveries(1)
        self.write_flow()

    def forget_parts(self) -> None:
        """Keep nothing more of a request that came in several frames."""
        if self.octets:
            self.context.vhost.memory.add(self.context.session.id, -self.octets)
        self.parts = []
        self.octets = 0

    def on_flow(self, flow: Flow) -> None:
        if flow.echo:
            self.write_flow()

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("no queue is delivered by this link")

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        self.is_attached = False
        self.forget_parts()

    def describe(self) -> dict[str, object]:
        return {"target_address": self.address, "credit": REQUESTS_MAX}
