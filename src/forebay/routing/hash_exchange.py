"""Consistent hashing: a message goes to one destination, and messages with one value to the same.

Each binding has points on a ring, 16 for each unit of its weight; a value has 8 probes, and goes to the point that
follows one of its probes most closely (multi-probe consistent hashing, Appleton and O'Reilly 2015). The probes make
the shares even with few points: they differ by 6 %. The points follow from the destination's name alone, neither from
the order of binding nor from anything drawn by lot: after a restart each value goes where it went, and a destination
that comes takes its share evenly from all others and gives it back when it goes.

Points and probes are the words of one BLAKE2b digest each. The ring is cut into arcs, about as many as there are
points, so that the next point is found at once however many there are.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import Properties
from forebay.routing.exchange import Binding, Exchange, frozen, text

CONSISTENT_HASH: Final = b"x-consistent-hash"
HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

WEIGHT_MAX: Final = 10_000  # of one binding
WEIGHTS_MAX: Final = 100_000  # of all bindings of an exchange
POINTS: Final = 16  # of a unit of weight
PROBES: Final = 8  # of a value
RING_BITS: Final = 32
RING_MASK: Final = 0xFFFFFFFF
ARC_BITS_MIN: Final = 4


def places_of(seed: bytes, count: i64) -> list[int]:
    """Places on the ring that follow from some octets: the words of their digest."""
    digest = blake2b(seed, digest_size=int(count * 4)).digest()
    found: list[int] = []
    for at in range(0, len(digest), 4):
        found.append(int.from_bytes(digest[at : at + 4], "big"))
    return found


@final
class Point:
    """A place on the ring that belongs to a binding; of several at one place the lowest label has it."""

    def __init__(self, place: i64, binding: Binding) -> None:
        self.place = place
        self.binding = binding


@final
class Ring:
    """Points by place, in 2^bits arcs of equal length."""

    def __init__(self) -> None:
        self.bits: i64 = ARC_BITS_MIN
        self.count: i64 = 0
        self.arcs: list[list[Point]] = new_arcs(self.bits)

    def add(self, point: Point) -> None:
        self.count += 1
        if self.count > (i64(1) << self.bits):
            self.cut(self.bits + 1)
        self.arcs[point.place >> (RING_BITS - self.bits)].append(point)

    def remove(self, place: i64, binding: Binding) -> None:
        """Take away the point that a binding has at this place."""
        arc = self.arcs[place >> (RING_BITS - self.bits)]
        for index in range(len(arc)):
            if arc[index].place == place and arc[index].binding is binding:
                del arc[index]
                break
        self.count -= 1
        if self.bits > ARC_BITS_MIN and self.count < (i64(1) << (self.bits - 2)):
            self.cut(self.bits - 1)

    def cut(self, bits: i64) -> None:
        """Cut the ring into another number of arcs."""
        old = self.arcs
        self.bits = bits
        self.arcs = new_arcs(bits)
        for arc in old:
            for point in arc:
                self.arcs[point.place >> (RING_BITS - bits)].append(point)

    def next(self, place: i64) -> Point:
        """The first point at this place or behind it; the ring must not be empty."""
        at = place >> (RING_BITS - self.bits)
        found = first_from(self.arcs[at], place)
        while found is None:
            at += 1
            if at == i64(len(self.arcs)):
                at = 0
            # Back in the first arc everything counts: what is behind the place was not there.
            found = first_from(self.arcs[at], 0)
        return found


def new_arcs(bits: i64) -> list[list[Point]]:
    return [[] for _ in range(i64(1) << bits)]


def first_from(arc: list[Point], place: i64) -> Point | None:
    """The first point of an arc that is not before a place."""
    found: Point | None = None
    for point in arc:
        if point.place < place:
            continue
        if (
            found is None
            or point.place < found.place
            or (point.place == found.place and point.binding.label < found.binding.label)
        ):
            found = point
    return found


@final
class HashExchange(Exchange):
    """To one destination, which a hash of the routing key picks, or of a header or a property that arguments name.

    The binding key is the destination's weight.
    """

    def __init__(
        self, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        super().__init__(name, CONSISTENT_HASH, durable, auto_delete, internal, arguments)
        self.header = text_argument(arguments, HASH_HEADER)
        self.property = text_argument(arguments, HASH_PROPERTY)
        if self.header is not None and self.property is not None:
            raise RequestError(PRECONDITION, "hash-header and hash-property are mutually exclusive")
        if self.property is not None and self.property not in PROPERTIES:
            raise RequestError(PRECONDITION, f"Unsupported property: {self.property}")
        self.by_content = self.header is not None or self.property is not None
        self.fixed += [HASH_HEADER, HASH_PROPERTY]
        self.ring = Ring()
        self.weights: i64 = 0

    def connect(self, binding: Binding) -> None:
        weight = weight_of(binding.routing_key)
        if self.weights + weight > WEIGHTS_MAX:
            raise RequestError(
                PRECONDITION,
                f"binding key {weight}: the weights of exchange '{text(self.name)}' come to more than {WEIGHTS_MAX}",
            )
        self.weights += weight
        unit: i64 = 0
        while unit < weight:
            for place in places_of(seed_of(binding, unit), POINTS):
                self.ring.add(Point(place, binding))
            unit += 1

    def disconnect(self, binding: Binding) -> None:
        weight = weight_of(binding.routing_key)
        self.weights -= weight
        unit: i64 = 0
        while unit < weight:
            for place in places_of(seed_of(binding, unit), POINTS):
                self.ring.remove(place, binding)
            unit += 1

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        content = Properties()
        content.headers = headers
        return self.pick(self.value_of(routing_key, content))

    def value_of(self, routing_key: bytes, content: Properties | None) -> bytes:
        """What of a message is hashed; messages that lack it count as alike."""
        if not self.by_content:
            return routing_key
        assert content is not None
        if self.header is not None:
            return octets_of(content.header(self.header))
        if self.property == "message_id":
            return octets_of(content.message_id)
        if self.property == "correlation_id":
            return octets_of(content.correlation_id)
        return octets_of(content.timestamp_s)

    def pick(self, value: bytes) -> list[int]:
        """The destination of a value; nothing where there is no binding."""
        ring = self.ring
        if ring.count == 0:
            return []
        nearest: Point | None = None
        least: i64 = RING_MASK + 1
        for place in places_of(value, PROBES):
            point = ring.next(place)
            gap: i64 = (point.place - place) & RING_MASK
            if nearest is None or gap < least or (gap == least and point.binding.label < nearest.binding.label):
                nearest = point
                least = gap
        assert nearest is not None
        return [nearest.binding.destination]


def seed_of(binding: Binding, unit: i64) -> bytes:
    """What a unit of weight has its points from: the same for a destination of that name, whenever it is bound."""
    kind = b"exchange" if binding.destination < 0 else b"queue"
    return b"%s\0%s\0%d" % (kind, binding.label, int(unit))


def octets_of(value: object) -> bytes:
    """A value as octets to hash."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else frozen(value).encode()


def weight_of(routing_key: bytes) -> i64:
    """The weight that a binding key says; RequestError if it says none."""
    key = routing_key.decode("utf-8", "backslashreplace")
    digits = key[1:] if key[:1] in ("+", "-") else key
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise RequestError(PRECONDITION, "The binding key must be an integer: " + (f'<<"{key}">>' if key else "<<>>"))
    weight = int(key)
    if weight < 1:
        raise RequestError(PRECONDITION, "The binding key must be greater than 0")
    if weight > WEIGHT_MAX:
        raise RequestError(PRECONDITION, f"The binding key must be at most {WEIGHT_MAX}: {weight}")
    return weight


def text_argument(arguments: dict[str, object], name: str) -> str | None:
    """An argument that must be a text if it is there."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestError(PRECONDITION, f"{name}: {value!r} is not a text")
    return value
