"""The node `<entity>/$management` of Azure Service Bus: requests about one queue.

    com.microsoft:renew-lock                  lock-tokens                                expirations
    com.microsoft:update-disposition          lock-tokens, disposition-status, ...
    com.microsoft:peek-message                from-sequence-number, message-count        messages
    com.microsoft:receive-by-sequence-number  sequence-numbers, receiver-settle-mode     messages
    com.microsoft:schedule-message            messages                                   sequence-numbers
    com.microsoft:cancel-scheduled-message    sequence-numbers
    com.microsoft:renew-session-lock          session-id                                 expiration
    com.microsoft:get-session-state           session-id                                 session-state
    com.microsoft:set-session-state           session-id, session-state
    com.microsoft:get-message-sessions        skip, top                                  skip, sessions-ids

400 answers a request that is malformed, 403 one that the user may not do, 404 and 410 one about a message or lock that
is not there, and 501 any other operation.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import (
    INVALID,
    LOCKED,
    NOT_FOUND,
    PRECONDITION,
    REFUSED,
    TOO_LARGE,
    TOO_MANY,
    DamagedBlock,
    PeerError,
    RequestError,
)
from forebay.directory.permissions import READ
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.servicebus.entity_locks import EntityLocks
from forebay.session.amqp10.servicebus.entity_sessions import CANNOT_BE_LOCKED, SESSION_LOST, EntitySessions
from forebay.session.amqp10.servicebus.node_requests import (
    BAD_REQUEST,
    CONFLICT,
    FORBIDDEN,
    GONE,
    MISSING,
    NO_CONTENT,
    NOT_IMPLEMENTED,
    OK,
    NodeAnswer,
    NodeRequest,
    encode_node_answer,
    names_of,
)
from forebay.session.amqp10.servicebus.request_link import RequestLink, RequestNode
from forebay.session.amqp10.servicebus.scheduled import cancel_scheduled, schedule
from forebay.session.amqp10.servicebus.settlement import LOCK_LOST
from forebay.wire.amqp10.values import Map

VENDOR: Final = "com.microsoft:"
MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"
ARGUMENT_ERROR: Final = "com.microsoft:argument-error"
ACCESS: Final = "amqp:unauthorized-access"
NO_ROOM: Final = "amqp:resource-limit-exceeded"
STATUS: Final = {
    INVALID: (BAD_REQUEST, ARGUMENT_ERROR),
    PRECONDITION: (BAD_REQUEST, "amqp:precondition-failed"),
    LOCKED: (CONFLICT, "amqp:resource-locked"),
    REFUSED: (FORBIDDEN, ACCESS),
    TOO_MANY: (FORBIDDEN, NO_ROOM),
    TOO_LARGE: (FORBIDDEN, NO_ROOM),
    NOT_FOUND: (MISSING, "amqp:not-found"),
    MESSAGE_NOT_FOUND: (MISSING, MESSAGE_NOT_FOUND),
    LOCK_LOST: (GONE, LOCK_LOST),
    SESSION_LOST: (GONE, SESSION_LOST),
    CANNOT_BE_LOCKED: (CONFLICT, CANNOT_BE_LOCKED),
}


@final
class EntityNode(RequestNode):
    """The node of one entity, for the requests of one link.

    queue  name of the queue
    """

    def __init__(self, context: LinkContext, queue: bytes) -> None:
        self.context = context
        self.queue = queue
        self.locks = EntityLocks(context, queue)
        self.sessions = EntitySessions(context, queue)

    def answer(self, request: NodeRequest, link: RequestLink) -> bytes | None:
        return encode_node_answer(request, self.answer_request(request))

    def answer_renewal(self, request: NodeRequest) -> bytes:
        raise AssertionError("no request to an entity waits for a proof")

    def answer_request(self, request: NodeRequest) -> NodeAnswer:
        """Do what a request asks for. Raises Later, Undecided, and nothing is done."""
        if request.body is not None and not isinstance(request.body, Map):
            return NodeAnswer(BAD_REQUEST, "body: must be one amqp-value section with a map", None, ARGUMENT_ERROR)
        fields = {} if request.body is None else names_of(request.body)
        try:
            body = self.do(request.operation, fields)
        except RequestError as error:
            status, condition = STATUS.get(error.reason, (BAD_REQUEST, ARGUMENT_ERROR))
            if error.reason == REFUSED:
                self.context.session.note_denied(False, error.text)
            return NodeAnswer(status, error.text, None, condition)
        except PeerError as malformed:
            return NodeAnswer(BAD_REQUEST, malformed.text, None, ARGUMENT_ERROR)
        except DamagedBlock as damage:
            return NodeAnswer(BAD_REQUEST, str(damage), None, "amqp:internal-error")
        if body is None:
            return NodeAnswer(NOT_IMPLEMENTED, unknown(request.operation), None, "amqp:not-implemented")
        if not body.pairs:
            return NodeAnswer(OK, "OK", body)
        if body.pairs[0] == ("messages", []):
            return NodeAnswer(NO_CONTENT, "there is no such message", None, MESSAGE_NOT_FOUND)
        return NodeAnswer(OK, "OK", body)

    def do(self, operation: str, fields: dict[str, object]) -> Map | None:
        """Do an operation, and return the body of its answer; None if there is no such operation."""
        if not operation.startswith(VENDOR):
            return None
        name = operation[len(VENDOR) :]
        if name in ("schedule-message", "cancel-scheduled-message"):
            if name == "schedule-message":
                return schedule(self.context, self.queue, fields)
            return cancel_scheduled(self.context, self.queue, fields)
        self.context.rights.check_queue(READ, self.queue)
        self.context.vhost.check_owner(self.queue, self.context.session.id)
        if name == "peek-message":
            return self.locks.peek(fields)
        if name == "renew-lock":
            return self.locks.renew(fields)
        if name == "update-disposition":
            return self.locks.settle(fields)
        if name == "receive-by-sequence-number":
            return self.locks.receive(fields)
        return self.sessions.do(name, fields)


def unknown(operation: str) -> str:
    """Return what is said of an operation that there is not."""
    return f"operation '{operation[:100]}' is not implemented"
