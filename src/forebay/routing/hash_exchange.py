"""Consistent hashing: a message goes to one destination, and messages with one value to the same.

Each binding has points on a ring, 32 for each unit of its weight; a value has 4 probes, and goes to the point that
follows one of its probes most closely (multi-probe consistent hashing, Appleton and O'Reilly 2015). The probes make
the shares even with few points: they differ by 6 %. The points follow from the destination's name alone, neither from
the order of binding nor from anything drawn by lot: after a restart each value goes where it went, and a destination
that comes takes its share evenly from all others and gives it back when it goes.

Points and probes are words of BLAKE2b digests. The ring is cut into arcs, about as many as there are
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
POINTS: Final = 16  # of one digest
DIGESTS: Final = 2  # of a unit of weight
PROBES: Final = 4  # of a value
RING_MASK: Final = 0xFFFFFFFF  # places have 32 bits
ARCS_MIN: Final = 16
SHIFT_MAX: Final = 28  # with as many arcs


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
        self.following: Point | None = None  # in the same arc


@final
class Ring:
    """Points in arcs of equal length: the first of each, which leads to the others.

    arcs   how many there are: a power of two
    shift  how far a place is shifted to the right to be the number of its arc

    Looking a point up touches little memory: with many points that is what it costs.
    """

    def __init__(self) -> None:
        self.arcs: i64 = ARCS_MIN
        self.shift: i64 = SHIFT_MAX
        self.count: i64 = 0
        self.firsts: list[Point | None] = [None] * ARCS_MIN

    def add(self, point: Point) -> None:
        self.count += 1
        if self.count > self.arcs:
            self.cut(self.arcs * 2, self.shift - 1)
        self.put(point)

    def put(self, point: Point) -> None:
        """Have a point in its arc, behind those that come before it."""
        arc = point.place >> self.shift
        before: Point | None = None
        here = self.firsts[arc]
        while here is not None and comes_before(here, point):
            before = here
            here = here.following
        point.following = here
        if before is None:
            self.firsts[arc] = point
        else:
            before.following = point

    def remove(self, place: i64, binding: Binding) -> None:
        """Take away a point that the binding has at this place."""
        arc = place >> self.shift
        before: Point | None = None
        here = self.firsts[arc]
        while here is not None and (here.place != place or here.binding is not binding):
            before = here
            here = here.following
        assert here is not None
        if before is None:
            self.firsts[arc] = here.following
        else:
            before.following = here.following
        self.count -= 1
        if self.arcs > ARCS_MIN and self.count < self.arcs // 4:
            self.cut(self.arcs // 2, self.shift + 1)

    def cut(self, arcs: i64, shift: i64) -> None:
        """Cut the ring into another number of arcs."""
        points = self.points()
        self.arcs = arcs
        self.shift = shift
        self.firsts = [None] * int(arcs)
        for point in points:
            self.put(point)

    def points(self) -> list[Point]:
        """All points, by place."""
        found: list[Point] = []
        for first in self.firsts:
            here = first
            while here is not None:
                found.append(here)
                here = here.following
        return found

    def next(self, place: i64) -> Point:
        """Return the first point of the ring at or behind a place. The ring must not be empty."""
        arc = place >> self.shift
        here = self.firsts[arc]
        while here is not None and here.place < place:
            here = here.following
        while here is None:
            # Back in the first arc everything counts: what is behind the place was not there.
            arc = (arc + 1) & (self.arcs - 1)
            here = self.firsts[arc]
        return here


def comes_before(one: Point, other: Point) -> bool:
    """Return whether a point of the ring comes before another, or is the one of both that counts at the same place."""
    return one.place < other.place or (one.place == other.place and one.binding.label < other.binding.label)


@final
class HashExchange(Exchange):
    """Routes to one destination, picked by a hash of the routing key, or of a header or property that arguments name.

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

    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        frozen(arguments)
        weight = weight_of(routing_key)
        if self.weights + weight > WEIGHTS_MAX:
            raise RequestError(
                PRECONDITION,
                f"binding key {weight}: the weights of exchange '{text(self.name)}' come to more than {WEIGHTS_MAX}",
            )

    def connect(self, binding: Binding) -> None:
        weight = weight_of(binding.routing_key)
        self.weights += weight
        index: i64 = 0
        while index < weight * DIGESTS:
            for place in places_of(seed_of(binding, index), POINTS):
                self.ring.add(Point(place, binding))
            index += 1

    def disconnect(self, binding: Binding) -> None:
        weight = weight_of(binding.routing_key)
        self.weights -= weight
        index: i64 = 0
        while index < weight * DIGESTS:
            for place in places_of(seed_of(binding, index), POINTS):
                self.ring.remove(place, binding)
            index += 1

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        content = Properties()
        content.headers = headers
        return self.pick(self.value_of(routing_key, content))

    def value_of(self, routing_key: bytes, content: Properties | None) -> bytes:
        """Return the part of a message that is hashed. Messages without that part hash alike."""
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
        """Return the destination of a hashed value in a list, which is empty if there is no binding."""
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


def seed_of(binding: Binding, index: i64) -> bytes:
    """Return the octets that place a point of a binding on the ring. A destination's name alone decides them."""
    kind = b"exchange" if binding.destination < 0 else b"queue"
    return b"%s\0%s\0%d" % (kind, binding.label, int(index))


def octets_of(value: object) -> bytes:
    """Convert a value to octets to hash."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else frozen(value).encode()


def weight_of(routing_key: bytes) -> i64:
    """Parse the weight in a binding key. Raises RequestError if it is none."""
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
    """Return an argument that must be a text if it is given. Raises RequestError if it is something else."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise RequestError(PRECONDITION, f"{name}: {value!r} is not a text")
    return value
