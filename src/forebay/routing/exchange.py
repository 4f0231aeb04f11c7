"""Exchanges: from a routing key and headers to the destinations that are bound to them.

A destination is an opaque number here; what tells one that is an exchange from the others is in
`forebay.routing.bindings`. Each kind keeps its bindings in the shape in which it looks them up, so that a
message costs the same with ten bindings as with ten thousand; `Exchange` itself keeps them by destination, which is
what listing and removal need. Two bindings of one destination are the same when key and arguments are the same; a
message gets to a destination once however many of its bindings match.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from hashlib import sha256
from typing import Final, final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.reading.nearest import hint
from forebay.routing.flow import ExchangeCounts
from forebay.routing.topic_trie import TopicTrie, split_levels, swap_key

DIRECT: Final = b"direct"
FANOUT: Final = b"fanout"
TOPIC: Final = b"topic"
HEADERS: Final = b"headers"

ALTERNATE: Final = "alternate-exchange"
KNOWN: Final = (ALTERNATE, "x-delayed-type", "hash-header", "hash-property")  # arguments of some kind of exchange
FOREIGN: Final = ("x-internal-purpose",)  # of RabbitMQ's own exchanges; nothing comes of it

# Estimated memory of the objects that keep a binding, of each word of its key, of an exchange, and of a value.
BINDING_OCTETS: Final = 256
WORD_OCTETS: Final = 64
EXCHANGE_OCTETS: Final = 512
VALUE_OCTETS: Final = 32
NESTING_MAX: Final = 128  # tables and lists in a binding's arguments or a header
HASH_OCTETS: Final = 9  # of the arguments, in a path


def text(name: bytes) -> str:
    """Decode a name for messages to people."""
    return name.decode("utf-8", "backslashreplace")


def frozen(value: object, depth: int = 0) -> str:
    """One text for each distinct argument or header value: the type belongs to it, the order of a table does not."""
    if depth > NESTING_MAX:
        raise RequestError(PRECONDITION, f"a table or list is nested deeper than {NESTING_MAX}")
    if isinstance(value, str):
        return "s" + repr(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int):
        return f"i{value}"
    if value is None:
        return "n"
    if isinstance(value, dict):
        parts = []
        for key in sorted(value):
            parts.append(f"{key!r}:{frozen(value[key], depth + 1)}")
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        parts = []
        for item in value:
            parts.append(frozen(item, depth + 1))
        return "[" + ",".join(parts) + "]"
    if isinstance(value, float):
        return "d" + repr(value + 0.0)  # -0.0 and 0.0 are one value
    return type(value).__name__ + repr(value)


@final
class Binding:
    """One binding: messages that `exchange` gets and that fit go to `destination`.

    identity  arguments as one text: what tells two bindings with one key apart
    sequence  grows with each binding of the exchange
    label     the destination's name: unlike its number, the same after it was made anew
    """

    def __init__(
        self,
        exchange: bytes,
        destination: int,
        routing_key: bytes,
        arguments: dict[str, object],
        identity: str,
        sequence: int,
        label: bytes,
    ) -> None:
        self.exchange = exchange
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        self.identity = identity
        self.sequence = sequence
        self.label = label

    def octets(self) -> int:
        """Return the estimated memory that the binding takes."""
        return binding_octets(self.routing_key, self.identity)

    def arguments_hash(self) -> str:
        """Return a short hash of the arguments, by which paths name the binding; "" if it has none.

        The hash is our own: RabbitMQ's goes by how Erlang has values in memory.
        """
        return hash_arguments(self.arguments, self.identity)


class Exchange(ABC):
    """A named router of one kind.

    number      as a destination of other exchanges; negative, and good until the exchange goes
    alternate   name of the exchange that takes what this one leads nowhere; None for none. The argument says so, or a
                policy
    by_content  where a message goes depends on more of it than its routing key
    fixed       arguments that a redeclaration must repeat; the others it may leave out
    bindings    destination -> (routing key, identity) -> binding
    binding_octets  estimated memory of the bindings
    flow        what went through it
    """

    def __init__(
        self,
        name: bytes,
        kind: bytes,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        self.name = name
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.number = 0
        self.alternate = alternate_of(arguments)
        self.by_content = False
        self.fixed = [ALTERNATE]
        self.bindings: dict[int, dict[tuple[bytes, str], Binding]] = {}
        self.binding_count = 0
        self.binding_octets = 0
        self.sequence = 0
        self.flow = ExchangeCounts()

    @abstractmethod
    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        """Distinct destinations for a message, oldest binding first."""

    @abstractmethod
    def connect(self, binding: Binding) -> None:
        """Make `route` see a new binding, for which `check_bind` has nothing against."""

    @abstractmethod
    def disconnect(self, binding: Binding) -> None:
        """Make `route` forget a binding."""

    @abstractmethod
    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        """RequestError where no new binding can have this key and these arguments."""

    def bind(self, destination: int, routing_key: bytes, arguments: dict[str, object], label: bytes = b"") -> bool:
        """Add a binding; False if there is the same one already. RequestError as `check_bind`, with nothing changed."""
        identity = frozen(arguments)
        own = self.bindings.get(destination)
        if own is not None and (routing_key, identity) in own:
            return False
        self.check_bind(routing_key, arguments)
        binding = Binding(self.name, destination, routing_key, arguments, identity, self.sequence + 1, label)
        self.connect(binding)
        self.sequence += 1
        self.binding_count += 1
        self.binding_octets += binding.octets()
        if own is None:
            own = self.bindings[destination] = {}
        own[routing_key, identity] = binding
        return True

    def has(self, destination: int, routing_key: bytes, arguments: dict[str, object]) -> bool:
        """Return whether there is such a binding."""
        own = self.bindings.get(destination)
        return own is not None and (routing_key, frozen(arguments)) in own

    def unbind(self, destination: int, routing_key: bytes, arguments: dict[str, object]) -> bool:
        """Take a binding away; False if there is none such."""
        own = self.bindings.get(destination)
        if own is None:
            return False
        binding = own.pop((routing_key, frozen(arguments)), None)
        if binding is None:
            return False
        if not own:
            del self.bindings[destination]
        self.binding_count -= 1
        self.binding_octets -= binding.octets()
        self.disconnect(binding)
        return True

    def remove_destination(self, destination: int) -> int:
        """Take all bindings of a destination away; how many there were."""
        own = self.bindings.pop(destination, None)
        if own is None:
            return 0
        for binding in own.values():
            self.binding_octets -= binding.octets()
            self.disconnect(binding)
        self.binding_count -= len(own)
        return len(own)

    def is_unused(self) -> bool:
        return not self.bindings

    def list_bindings(self) -> list[Binding]:
        """All bindings, by destination in the order of its first one."""
        found: list[Binding] = []
        for own in self.bindings.values():
            found.extend(own.values())
        return found

    def check_equivalent(
        self, vhost: bytes, kind: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        """RequestError, in RabbitMQ's words, if a redeclaration asks for anything else than there is."""
        self.check_same(vhost, "type", text(kind), text(self.kind))
        self.check_same(vhost, "durable", truth(durable), truth(self.durable))
        self.check_same(vhost, "auto_delete", truth(auto_delete), truth(self.auto_delete))
        self.check_same(vhost, "internal", truth(internal), truth(self.internal))
        for name in self.fixed:
            asked = arguments.get(name)
            current = self.arguments.get(name)
            if frozen(asked) != frozen(current):
                self.inequivalent(vhost, name, received(asked, current), received(current, asked))

    def check_same(self, vhost: bytes, field: str, asked: str, current: str) -> None:
        if asked != current:
            self.inequivalent(vhost, field, f"'{asked}'", f"'{current}'")

    def inequivalent(self, vhost: bytes, field: str, asked: str, current: str) -> None:
        raise RequestError(
            PRECONDITION,
            f"inequivalent arg '{field}' for exchange '{text(self.name)}' in vhost '{text(vhost)}': "
            f"received {asked} but current is {current}",
        )


def hash_arguments(arguments: dict[str, object], identity: str) -> str:
    """Return a short hash of a binding's arguments, which are `identity` as one text; "" for no arguments."""
    if not arguments:
        return ""
    digest = sha256(identity.encode("utf-8", "surrogatepass")).digest()[:HASH_OCTETS]
    return base64.urlsafe_b64encode(digest).decode()


def arguments_octets(value: object, depth: int = 0) -> int:
    """Return the estimated memory of an argument, or of a table of arguments."""
    if depth > NESTING_MAX:
        return 0
    octets = VALUE_OCTETS
    if isinstance(value, str | bytes):
        octets += len(value)
    elif isinstance(value, dict):
        for key, each in value.items():
            octets += arguments_octets(key, depth + 1) + arguments_octets(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            octets += arguments_octets(each, depth + 1)
    return octets


def exchange_octets(name: bytes, arguments: dict[str, object]) -> int:
    """Return the estimated memory of an exchange without its bindings."""
    return EXCHANGE_OCTETS + len(name) + arguments_octets(arguments)


def binding_octets(routing_key: bytes, identity: str) -> int:
    """Return the estimated memory of a binding with this key, whose arguments are `identity` as one text."""
    words = routing_key.count(b".") + 1
    return BINDING_OCTETS + len(routing_key) + len(identity) + words * WORD_OCTETS


def truth(value: bool) -> str:
    """Return a boolean as RabbitMQ's messages write it."""
    return "true" if value else "false"


def received(value: object, other: object) -> str:
    """Return an argument's value beside another, as RabbitMQ writes it: with its type where the other is absent.

    Values that look alike differ by their types, which stand behind them: '60000' (longstr), '60000' (signedint).
    """
    if value is None:
        return "none"
    shown = shown_argument(value)
    if other is None:
        return f"the value '{shown}' of type '{type_name(value)}'"
    return f"'{shown}' ({type_name(value)})" if shown == shown_argument(other) else f"'{shown}'"


def shown_argument(value: object) -> str:
    """Return an argument's value for people."""
    return truth(value) if isinstance(value, bool) else str(value)


def type_name(value: object) -> str:
    """RabbitMQ's name for the type of an argument's value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -(1 << 31) <= value < 1 << 31 else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, dict):
        return "table"
    if value is None:
        return "void"
    return "array" if isinstance(value, list) else "longstr"


def alternate_of(arguments: dict[str, object]) -> bytes | None:
    """Return the name of the alternate exchange among arguments that `check_arguments` has checked, or None."""
    name = arguments.get(ALTERNATE)
    if isinstance(name, str):
        return name.encode()
    return name if isinstance(name, bytes) else None


def check_arguments(vhost: bytes, name: bytes, arguments: dict[str, object]) -> None:
    """RequestError unless the arguments are known, and those that every kind of exchange has of the right type."""
    for each in arguments:
        if each not in KNOWN and each not in FOREIGN:
            raise RequestError(
                PRECONDITION,
                f"invalid arg '{each}' for exchange '{text(name)}' in vhost '{text(vhost)}': nothing puts it in force; "
                f"{hint(each, KNOWN)}",
            )
    alternate = arguments.get(ALTERNATE)
    if ALTERNATE in arguments and not isinstance(alternate, str | bytes):
        raise RequestError(
            PRECONDITION,
            f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE}' in exchange '{text(name)}' in vhost "
            f"'{text(vhost)}'",
        )


def count_in(counts: dict[int, int], destination: int) -> bool:
    """One more binding of the destination; True if it is the first."""
    count = counts.get(destination, 0)
    counts[destination] = count + 1
    return count == 0


def count_out(counts: dict[int, int], destination: int) -> bool:
    """One binding of the destination less; True if it was the last."""
    count = counts[destination] - 1
    if count:
        counts[destination] = count
        return False
    del counts[destination]
    return True


@final
class DirectExchange(Exchange):
    """Routes to the destinations bound with exactly the message's routing key."""

    def __init__(
        self, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        super().__init__(name, DIRECT, durable, auto_delete, internal, arguments)
        self.keys: dict[bytes, dict[int, int]] = {}  # key -> destination -> how many bindings

    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        frozen(arguments)

    def connect(self, binding: Binding) -> None:
        counts = self.keys.get(binding.routing_key)
        if counts is None:
            counts = self.keys[binding.routing_key] = {}
        count_in(counts, binding.destination)

    def disconnect(self, binding: Binding) -> None:
        counts = self.keys[binding.routing_key]
        count_out(counts, binding.destination)
        if not counts:
            del self.keys[binding.routing_key]

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        counts = self.keys.get(routing_key)
        return [] if counts is None else list(counts)


@final
class FanoutExchange(Exchange):
    """Routes to every destination."""

    def __init__(
        self, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        super().__init__(name, FANOUT, durable, auto_delete, internal, arguments)

    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        frozen(arguments)

    def connect(self, binding: Binding) -> None:
        """Do nothing: `bindings` is in the shape that `route` needs."""

    def disconnect(self, binding: Binding) -> None:
        """Do nothing, as in `connect`."""

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        return list(self.bindings)


@final
class TopicExchange(Exchange):
    """Routes by patterns that the routing key matches: '*' is one word, '#' any number of words.

    trie    holds the patterns in the canonical (MQTT) form: MQTT topics are matched against it as they are
    """

    def __init__(
        self, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        super().__init__(name, TOPIC, durable, auto_delete, internal, arguments)
        self.trie = TopicTrie()
        self.keys: dict[bytes, dict[int, int]] = {}  # key -> destination -> how many bindings

    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        frozen(arguments)
        split_levels(swap_key(routing_key))

    def connect(self, binding: Binding) -> None:
        key = binding.routing_key
        counts = self.keys.get(key)
        if counts is None:
            counts = {}
        if binding.destination not in counts:
            self.trie.add(swap_key(key), binding.destination)
        self.keys[key] = counts
        count_in(counts, binding.destination)

    def disconnect(self, binding: Binding) -> None:
        key = binding.routing_key
        counts = self.keys[key]
        if count_out(counts, binding.destination):
            self.trie.remove(swap_key(key), binding.destination)
            if not counts:
                del self.keys[key]

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        return self.trie.match(swap_key(routing_key), False)

    def route_topic(self, topic: bytes, dollar_rule: bool) -> list[int]:
        """Route a topic in the canonical form (see `TopicTrie.match`)."""
        return self.trie.match(topic, dollar_rule)
