"""The node `/management`: requests by which a client declares, reads and deletes queues, exchanges and bindings.

RabbitMQ's clients of AMQP 1.0 send verbs and paths of HTTP in messages:

    GET     /queues/:queue                              200, 404
    PUT     /queues/:queue                              201 made, 200 there already, 409 there and another
    DELETE  /queues/:queue                              200
    DELETE  /queues/:queue/messages                     200, 404
    PUT     /exchanges/:exchange                        204, 409
    DELETE  /exchanges/:exchange                        204
    POST    /bindings                                   204, 404
    GET     /bindings?src=&dstq=|dste=&key=             200
    DELETE  /bindings/src=;dstq=|dste=;key=;args=       204
    PUT     /auth/tokens                                204, by the link itself

400 answers what is malformed or has no such value, 403 what the user may not do, 404 any other path, and 405 any other
verb.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import parse_qsl

from forebay.core.errors import (
    INVALID,
    LOCKED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TOO_MANY,
    RequestError,
)
from forebay.queue.queue import Queue
from forebay.routing.exchange import Binding, text
from forebay.session.amqp10.addresses import decode_segment, encode_segment
from forebay.session.session import Session
from forebay.session.shared.topology import (
    bind_exchange,
    bind_queue,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    purge_queue,
    unbind_exchange,
    unbind_queue,
)

OK: Final = 200
CREATED: Final = 201
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISSING: Final = 404
NO_SUCH_VERB: Final = 405
CONFLICT: Final = 409

STATUS: Final = {
    NOT_FOUND: MISSING,
    PRECONDITION: CONFLICT,
    REFUSED: FORBIDDEN,
    TOO_MANY: FORBIDDEN,
    LOCKED: BAD_REQUEST,
    INVALID: BAD_REQUEST,
    NOT_IMPLEMENTED: BAD_REQUEST,
}
QUEUE_FIELDS: Final = ("durable", "exclusive", "auto_delete", "arguments")
EXCHANGE_FIELDS: Final = ("type", "durable", "auto_delete", "internal", "arguments")
BINDING_FIELDS: Final = ("source", "destination_queue", "destination_exchange", "binding_key", "arguments")
QUERY_FIELDS: Final = ("src", "dstq", "dste", "key")
BINDING_PARTS: Final = ("src", "dstq", "dste", "key", "args")


@final
class ManagementAnswer:
    """The answer to one request.

    status  as in HTTP
    body    None, text, a table or a list of tables; `Count` for an unsigned number
    is_committed  it may leave when the commit of this turn is on disk
    """

    def __init__(self, status: int, body: object = None, is_committed: bool = False) -> None:
        self.status = status
        self.body = body
        self.is_committed = is_committed


@final
class Count:
    """An unsigned number of an answer, of 64 bits or of 32."""

    def __init__(self, value: int, is_long: bool) -> None:
        self.value = value
        self.is_long = is_long


@final
class BadRequest(Exception):
    """A request that is malformed, or that no path or verb is there for."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@final
class Management:
    """The operations on one vhost that the requests of a session ask for.

    node   name of this node, which leads all queues
    nodes  names of the nodes that have the queues
    """

    def __init__(self, session: Session, node: str, nodes: list[str]) -> None:
        self.session = session
        self.node = node
        self.nodes = nodes

    def answer(self, verb: str, path: str, body: object) -> ManagementAnswer:
        """Do one request, and return its answer.

        body    None, or a table of AMQP 0.9.1's values
        raises  Undecided, Later: nothing is done yet, and the request is to be given again
        """
        try:
            return self.route(verb, path, body)
        except BadRequest as error:
            return ManagementAnswer(error.status, error.reason)
        except RequestError as refused:  # by another name: compiled, a variable has the type of its first value
            return ManagementAnswer(STATUS.get(refused.reason, BAD_REQUEST), refused.text)

    def route(self, verb: str, path: str, body: object) -> ManagementAnswer:
        """Find what the path means, and do it."""
        plain, _, query = path.partition("?")
        if "\r" in path or "\n" in path or "%0D" in path.upper() or "%0A" in path.upper():
            raise BadRequest(BAD_REQUEST, f"path '{path!r}': a name must not contain carriage returns or line feeds")
        parts = plain.split("/")
        if len(parts) < 2 or parts[0]:
            raise no_such_path(path)
        kind = parts[1]
        if kind == "queues" and len(parts) == 3:
            return self.on_queue(verb, decode_segment(parts[2], path), body, path)
        if kind == "queues" and len(parts) == 4 and parts[3] == "messages":
            check_verb(verb, path, ["DELETE"])
            count = purge_queue(self.session, decode_segment(parts[2], path))
            return ManagementAnswer(OK, {"message_count": Count(count, True)}, is_committed=True)
        if kind == "exchanges" and len(parts) == 3:
            return self.on_exchange(verb, decode_segment(parts[2], path), body, path)
        if kind == "bindings" and len(parts) == 2:
            check_verb(verb, path, ["GET", "POST"])
            return self.list_bindings(query, path) if verb == "GET" else self.add_binding(body)
        if kind == "bindings" and len(parts) == 3:
            check_verb(verb, path, ["DELETE"])
            return self.remove_binding(parts[2], path)
        raise no_such_path(path)

    # ---- queues

    def on_queue(self, verb: str, name: bytes, body: object, path: str) -> ManagementAnswer:
        check_verb(verb, path, ["GET", "PUT", "DELETE"])
        vhost = self.session.vhost
        if verb == "GET":
            queue = vhost.queue(name, self.session.id)
            return ManagementAnswer(OK, self.queue_fields(queue))
        if verb == "DELETE":
            return ManagementAnswer(OK, {"message_count": Count(delete_queue(self.session, name, False, False), True)})
        fields = fields_of(body, QUEUE_FIELDS)
        if not name:
            raise BadRequest(BAD_REQUEST, "queue '': the name must not be empty")
        is_new = vhost.find_queue(name) is None
        try:
            queue = declare_queue(
                self.session,
                name,
                flag(fields, "durable", True),
                flag(fields, "exclusive", False),
                flag(fields, "auto_delete", False),
                table(fields),
            )
        except RequestError as error:
            raise with_status(error, is_new) from None
        return ManagementAnswer(CREATED if is_new else OK, self.queue_fields(queue))

    def queue_fields(self, queue: Queue) -> dict[str, object]:
        """Return what an answer says of a queue."""
        self.session.vhost.catch_up(queue)
        spec = queue.spec
        return {
            "name": text(queue.name),
            "vhost": text(self.session.vhost.name),
            "durable": spec.durable,
            "auto_delete": spec.auto_delete,
            "exclusive": spec.exclusive,
            "type": spec.type,
            "arguments": {key: value for key, value in spec.arguments.items() if value is not None},
            "leader": self.node,
            "replicas": list(self.nodes),
            "message_count": Count(queue.ready(), True),
            "consumer_count": Count(queue.consumer_count(), False),
        }

    # ---- exchanges

    def on_exchange(self, verb: str, name: bytes, body: object, path: str) -> ManagementAnswer:
        check_verb(verb, path, ["PUT", "DELETE"])
        if verb == "DELETE":
            delete_exchange(self.session, name, False)
            return ManagementAnswer(NO_CONTENT)
        fields = fields_of(body, EXCHANGE_FIELDS)
        is_new = self.session.vhost.find_exchange(name) is None
        try:
            declare_exchange(
                self.session,
                name,
                word(fields, "type", "direct"),
                flag(fields, "durable", True),
                flag(fields, "auto_delete", False),
                flag(fields, "internal", False),
                table(fields),
            )
        except RequestError as error:
            raise with_status(error, is_new) from None
        return ManagementAnswer(NO_CONTENT)

    # ---- bindings

    def add_binding(self, body: object) -> ManagementAnswer:
        fields = fields_of(body, BINDING_FIELDS)
        if ("destination_queue" in fields) == ("destination_exchange" in fields):
            raise BadRequest(BAD_REQUEST, "a binding must have either destination_queue or destination_exchange")
        source, key = word(fields, "source", ""), word(fields, "binding_key", "")
        if "destination_queue" in fields:
            bind_queue(self.session, word(fields, "destination_queue", ""), source, key, table(fields))
        else:
            bind_exchange(self.session, word(fields, "destination_exchange", ""), source, key, table(fields))
        return ManagementAnswer(NO_CONTENT)

    def list_bindings(self, query: str, path: str) -> ManagementAnswer:
        """Return the bindings between two ends, of one key if the query names one."""
        wanted = dict(parse_qsl(query, keep_blank_values=True))
        check_names(list(wanted), QUERY_FIELDS)
        if "src" not in wanted or ("dstq" in wanted) == ("dste" in wanted):
            raise BadRequest(BAD_REQUEST, f"path '{path}': must say src, and either dstq or dste")
        found = self.bindings_between(wanted["src"].encode(), wanted)
        key = wanted.get("key")
        if key is not None:
            found = [each for each in found if each.routing_key == key.encode()]
        return ManagementAnswer(OK, [binding_fields(each, "dstq" in wanted) for each in found])

    def bindings_between(self, source: bytes, ends: dict[str, str]) -> list[Binding]:
        """Return the bindings from an exchange to the queue `dstq` or the exchange `dste`."""
        vhost = self.session.vhost
        exchange = vhost.exchange(source)
        if "dstq" in ends:
            number = int(vhost.queue(ends["dstq"].encode(), self.session.id).id)
        else:
            number = int(vhost.exchange(ends["dste"].encode()).number)
        return list(exchange.bindings.get(number, {}).values())

    def remove_binding(self, segment: str, path: str) -> ManagementAnswer:
        """Delete the binding that a path names, if there is one."""
        ends: dict[str, str] = {}
        for part in segment.split(";"):
            name, equals, value = part.partition("=")
            if not equals or name in ends:
                raise BadRequest(
                    BAD_REQUEST, f"path '{path}': part '{part}' of the binding must be <name>=<value>, once"
                )
            ends[name] = decode_segment(value, path).decode()
        check_names(list(ends), BINDING_PARTS)
        if "src" not in ends or ("dstq" in ends) == ("dste" in ends):
            raise BadRequest(BAD_REQUEST, f"path '{path}': must say src, and either dstq or dste")
        source, key = ends["src"].encode(), ends.get("key", "").encode()
        arguments = self.arguments_of(source, ends, key)
        if arguments is None:
            return ManagementAnswer(NO_CONTENT)
        if "dstq" in ends:
            unbind_queue(self.session, ends["dstq"].encode(), source, key, arguments)
        else:
            unbind_exchange(self.session, ends["dste"].encode(), source, key, arguments)
        return ManagementAnswer(NO_CONTENT)

    def arguments_of(self, source: bytes, ends: dict[str, str], key: bytes) -> dict[str, object] | None:
        """Return the arguments of the binding of this key whose hash is `args`; None if there is no such binding."""
        hashed = ends.get("args", "")
        if not hashed:
            return {}
        try:
            found = self.bindings_between(source, ends)
        except RequestError:
            return None
        for each in found:
            if each.routing_key == key and each.arguments_hash() == hashed:
                return each.arguments
        return None


def binding_fields(binding: Binding, to_queue: bool) -> dict[str, object]:
    """Return what an answer says of a binding."""
    source, destination, key = binding.exchange, binding.label, binding.routing_key
    end = "dstq" if to_queue else "dste"
    place = f"src={encode_segment(source)};{end}={encode_segment(destination)};key={encode_segment(key)}"
    return {
        "source": text(source),
        "destination_queue" if to_queue else "destination_exchange": text(destination),
        "binding_key": text(key),
        "arguments": dict(binding.arguments),
        "location": f"/bindings/{place};args={binding.arguments_hash()}",
    }


def with_status(error: RequestError, is_new: bool) -> BadRequest:
    """Return the error of a declaration. What is there already conflicts; a new one has a bad argument."""
    status = STATUS.get(error.reason, BAD_REQUEST)
    return BadRequest(BAD_REQUEST if is_new and status == CONFLICT else status, error.text)


def no_such_path(path: str) -> BadRequest:
    return BadRequest(MISSING, f"path '{path}': there is nothing at this path")


def check_verb(verb: str, path: str, verbs: list[str]) -> None:
    """Refuse a verb that this path does not have."""
    if verb not in verbs:
        raise BadRequest(NO_SUCH_VERB, f"subject '{verb}': path '{path}' has {', '.join(verbs)}")


def check_names(names: list[str], known: tuple[str, ...]) -> None:
    """Refuse a field that no request of this kind has."""
    for name in names:
        if name not in known:
            raise BadRequest(BAD_REQUEST, f"field '{name}': must be one of {', '.join(known)}")


def fields_of(body: object, known: tuple[str, ...]) -> dict[str, object]:
    """Return the fields of a body, which must be a table of these or nothing."""
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise BadRequest(BAD_REQUEST, "body: must be one amqp-value section with a map")
    fields: dict[str, object] = {}
    for key, value in body.items():
        fields[str(key)] = value
    check_names(list(fields), known)
    return fields


def flag(fields: dict[str, object], name: str, default: bool) -> bool:
    """Return a field that is true or false."""
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadRequest(BAD_REQUEST, f"field '{name}': {value!r} must be true or false")
    return value


def word(fields: dict[str, object], name: str, default: str) -> bytes:
    """Return a field that is text."""
    value = fields.get(name)
    if value is None:
        return default.encode()
    if not isinstance(value, str):
        raise BadRequest(BAD_REQUEST, f"field '{name}': {value!r} must be text")
    return value.encode("utf-8")


def table(fields: dict[str, object]) -> dict[str, object]:
    """Return the field `arguments`."""
    value = fields.get("arguments")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(BAD_REQUEST, f"field 'arguments': {value!r} must be a map")
    return {str(key): each for key, each in value.items()}
