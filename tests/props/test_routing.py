"""Routing against what it means: random patterns, topics and headers, and a naive matcher for each."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.routing.bindings import Bindings
from forebay.routing.exchange import DIRECT, FANOUT, HEADERS, TOPIC, TopicExchange
from forebay.routing.hash_exchange import CONSISTENT_HASH, PROBES, HashExchange, places_of
from forebay.routing.headers_exchange import HeadersExchange
from forebay.routing.kinds import make_exchange
from forebay.routing.topic_trie import TopicTrie, matches, swap_key

LEVEL = st.sampled_from([b"a", b"b", b"", b"$x", b"aa"])
PATTERN = st.lists(st.one_of(LEVEL, st.sampled_from([b"+", b"#"])), max_size=7).map(b"/".join)
TOPIC_NAME = st.lists(LEVEL, max_size=7).map(b"/".join)
DESTINATION = st.integers(1, 4)


def levels(topic: bytes) -> list[bytes]:
    return topic.split(b"/") if topic else []


def naive(pattern: list[bytes], topic: list[bytes]) -> bool:
    if not pattern:
        return not topic
    if pattern[0] == b"#":
        return any(naive(pattern[1:], topic[taken:]) for taken in range(len(topic) + 1))
    return bool(topic) and pattern[0] in (b"+", topic[0]) and naive(pattern[1:], topic[1:])


def naive_dollar(pattern: bytes, topic: bytes) -> bool:
    if topic.startswith(b"$") and levels(pattern)[:1] in ([b"+"], [b"#"]):
        return False
    return naive(levels(pattern), levels(topic))


@given(PATTERN, TOPIC_NAME)
def test_one_pattern_is_as_naive(pattern: bytes, topic: bytes) -> None:
    assert matches(pattern, topic) == naive(levels(pattern), levels(topic))


@given(
    st.lists(st.tuples(PATTERN, DESTINATION), max_size=12), st.lists(TOPIC_NAME, min_size=1, max_size=4), st.booleans()
)
def test_trie_is_as_naive(bound: list[tuple[bytes, int]], topics: list[bytes], dollar_rule: bool) -> None:
    trie = TopicTrie()
    for pattern, destination in bound:
        trie.add(pattern, destination)
    for topic in topics:
        fits = [
            destination
            for pattern, destination in bound
            if (naive_dollar(pattern, topic) if dollar_rule else naive(levels(pattern), levels(topic)))
        ]
        assert trie.match(topic, dollar_rule) == list(dict.fromkeys(fits))


@given(st.lists(st.tuples(st.booleans(), PATTERN, DESTINATION), max_size=30), TOPIC_NAME, st.randoms())
def test_adding_and_removing_leaves_no_residue(
    actions: list[tuple[bool, bytes, int]], topic: bytes, random: object
) -> None:
    trie = TopicTrie()
    bound: dict[tuple[bytes, int], None] = {}
    for add, pattern, destination in actions:
        if add:
            trie.add(pattern, destination)
            bound[pattern, destination] = None
        else:
            assert trie.remove(pattern, destination) == ((pattern, destination) in bound)
            bound.pop((pattern, destination), None)
        expected = [where for what, where in bound if naive(levels(what), levels(topic))]
        assert trie.match(topic, False) == list(dict.fromkeys(expected))
    rest = list(bound)
    random.shuffle(rest)  # type: ignore[attr-defined]
    for pattern, destination in rest:
        assert trie.remove(pattern, destination)
    assert trie.is_empty()


@given(st.binary())
def test_swap_is_its_own_inverse(key: bytes) -> None:
    assert swap_key(swap_key(key)) == key
    assert len(swap_key(key)) == len(key)


VALUE = st.sampled_from(["v", "w", 1, True, 1.0, None, b"v", [1], {"k": 1}])
HEADER_TABLE = st.dictionaries(st.sampled_from(["a", "b", "c", "x-a", "x-b"]), VALUE, max_size=4)
MODE = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def same(asked: object, given: object) -> bool:
    """Equal with the types; of the lists and tables above only one value each is drawn."""
    return type(asked) is type(given) and asked == given


def naive_headers(mode: str | None, asked: dict[str, object], headers: dict[str, object]) -> bool:
    mode = mode or "all"
    pairs = [pair for pair in asked.items() if mode.endswith("-with-x") or not pair[0].startswith("x-")]
    fits = [name in headers and (value is None or same(value, headers[name])) for name, value in pairs]
    return all(fits) if mode.startswith("all") else any(fits)


@given(
    st.lists(st.tuples(DESTINATION, MODE, HEADER_TABLE), max_size=12),
    st.lists(HEADER_TABLE, min_size=1, max_size=4),
    st.data(),
)
def test_headers_exchange_is_as_naive(
    bound: list[tuple[int, str | None, dict[str, object]]], messages: list[dict[str, object]], data: st.DataObject
) -> None:
    x = make_exchange(HEADERS, b"x", True, False, False, {})
    assert isinstance(x, HeadersExchange)
    kept: list[tuple[int, str | None, dict[str, object]]] = []
    for destination, mode, asked in bound:
        x.bind(destination, b"", arguments(mode, asked))
    for destination, mode, asked in bound:
        if data.draw(st.booleans()):
            x.unbind(destination, b"", arguments(mode, asked))
    for destination, mode, asked in bound:
        if x.has(destination, b"", arguments(mode, asked)):
            kept.append((destination, mode, asked))
    for headers in messages:
        expected = [where for where, mode, asked in kept if naive_headers(mode, asked, headers)]
        assert x.route(b"", list(headers.items())) == list(dict.fromkeys(expected))
    for destination in range(1, 5):
        x.remove_destination(destination)
    assert (x.always, x.any_pairs, x.signatures, x.anchors) == ({}, {}, {}, {})


def arguments(mode: str | None, asked: dict[str, object]) -> dict[str, object]:
    return dict(asked) if mode is None else {"x-match": mode, **asked}


KEY = st.sampled_from([b"", b"a", b"a.b", b"a.*", b"#", b"a.#.b"])
ARGUMENTS = st.sampled_from([{}, {"n": 1}, {"n": True}])
ACTION = st.tuples(
    st.sampled_from(["bind", "bind", "bind", "unbind", "drop"]),
    st.sampled_from([b"d", b"f", b"t", b"h"]),
    DESTINATION,
    KEY,
    ARGUMENTS,
)


@given(st.lists(ACTION, max_size=40))
def test_bindings_table_is_a_set_of_bindings(actions: list[tuple[str, bytes, int, bytes, dict[str, object]]]) -> None:
    bindings = Bindings(b"/")
    for name, kind in ((b"d", DIRECT), (b"f", FANOUT), (b"t", TOPIC), (b"h", HEADERS)):
        bindings.add_exchange(make_exchange(kind, name, True, True, False, {}))
    model: set[tuple[bytes, int, bytes, str]] = set()
    for action, exchange, destination, key, args in actions:
        row = (exchange, destination, key, repr(args))
        before = {used[0] for used in model}
        orphans: list[bytes] = []
        if action == "bind":
            assert bindings.bind(exchange, destination, key, args) == (row not in model)
            model.add(row)
        elif action == "unbind":
            orphans = bindings.unbind(exchange, destination, key, args)
            model.discard(row)
        else:
            orphans = bindings.remove_destination(destination)
            model = {used for used in model if used[1] != destination}
        assert set(orphans) == before - {used[0] for used in model}
        assert {(b.exchange, b.destination, b.routing_key, repr(b.arguments)) for b in bindings.list_all()} == model
        mine = {
            (b.exchange, b.destination, b.routing_key, repr(b.arguments))
            for b in bindings.list_destination(destination)
        }
        assert mine == {used for used in model if used[1] == destination}
    for destination in range(1, 5):
        bindings.remove_destination(destination)
    topic = bindings.exchange(b"t")
    assert isinstance(topic, TopicExchange)
    assert topic.trie.is_empty()
    assert bindings.places == {}


MEMBERS = st.dictionaries(st.sampled_from([b"q%d" % number for number in range(12)]), st.integers(1, 4), max_size=12)


def hashing(members: dict[bytes, int], order: list[bytes]) -> HashExchange:
    """A hash exchange with these weights; destinations are numbered by name, so that they can be compared."""
    x = make_exchange(CONSISTENT_HASH, b"x", True, False, False, {})
    assert isinstance(x, HashExchange)
    for name in order:
        x.bind(1 + int(name[1:]), b"%d" % members[name], {}, name)
    return x


def nearest(x: HashExchange, value: bytes) -> list[int]:
    """The destination by looking at every point for every probe."""
    gaps = [
        ((point.place - probe) % (1 << 32), point.binding.label, point.binding.destination)
        for probe in places_of(value, PROBES)
        for point in x.ring.points()
    ]
    return [min(gaps)[2]] if gaps else []


@given(MEMBERS, st.lists(st.binary(max_size=8), min_size=1, max_size=20), st.randoms(), st.data())
def test_a_hash_exchange_is_as_naive_and_moves_no_more_than_it_must(
    members: dict[bytes, int], values: list[bytes], random: object, data: st.DataObject
) -> None:
    order = list(members)
    random.shuffle(order)  # type: ignore[attr-defined]
    x = hashing(members, sorted(members))
    shuffled = hashing(members, order)
    before = {value: x.route(value, []) for value in values}
    for value in values:
        assert before[value] == nearest(x, value) == shuffled.route(value, [])
    if not members:
        return
    gone = data.draw(st.sampled_from(sorted(members)))
    number = 1 + int(gone[1:])
    x.unbind(number, b"%d" % members[gone], {})
    for value in values:
        assert x.route(value, []) == nearest(x, value)
        assert before[value] == [number] or x.route(value, []) == before[value]
