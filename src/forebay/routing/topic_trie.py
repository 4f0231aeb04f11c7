"""Topic patterns: one trie of all of them, and the rules of what a topic and a filter may be.

The canonical form is MQTT's: levels parted by '/', '+' for one level, '#' for any number of levels, also none. MQTT
allows '#' only at the end; AMQP allows it anywhere, so the trie does. An empty topic or pattern has no levels (AMQP's
empty routing key: '#' matches it, '+' does not); MQTT never has one.

Matching walks all patterns at once, level by level, as the set of nodes that the topic may have reached so far (an
NFA). A node enters a step's set once, told by its stamp: so '#/a/#/b/#' costs levels x nodes, never a power, and the
cost does not grow with patterns whose levels the topic does not touch.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, RequestError
from forebay.routing.cut_work import UNCUT, CutWork, WorkInHand

LEVELS_MAX: Final = 256  # AMQP's 255-octet keys have at most as many
TOPIC_OCTETS_MAX: Final = 65535  # the length field of an MQTT string
SHOWN_OCTETS_MAX: Final = 200  # of a bad topic, in an error

SLASH: Final = 0x2F
PLUS: Final = 0x2B
HASH: Final = 0x23
DOLLAR: Final = 0x24

SWAP: Final = bytes.maketrans(b"/.+*", b"./*+")


def swap_key(key: bytes) -> bytes:
    """Convert an MQTT topic or filter to an AMQP routing key or pattern, or back. The function is its own inverse."""
    return key.translate(SWAP)


def shown(topic: bytes) -> str:
    """Return a topic for an error message, cut if it is long."""
    text = topic[:SHOWN_OCTETS_MAX].decode("utf-8", "backslashreplace")
    return text + "…" if len(topic) > SHOWN_OCTETS_MAX else text


def split_levels(topic: bytes) -> list[bytes]:
    """Return the levels of a topic or pattern. Raises RequestError if there are more than LEVELS_MAX."""
    if not topic:
        return []
    levels = topic.split(b"/")
    if len(levels) > LEVELS_MAX:
        raise RequestError(INVALID, f"topic '{shown(topic)}' has {len(levels)} levels, the limit is {LEVELS_MAX}")
    return levels


def check_text(what: str, topic: bytes) -> None:
    """Check what topics and filters have in common: [MQTT-4.7.3-1] to [MQTT-4.7.3-3] and UTF-8."""
    if not topic:
        raise RequestError(INVALID, f"{what} '' is empty")
    if len(topic) > TOPIC_OCTETS_MAX:
        raise RequestError(INVALID, f"{what} '{shown(topic)}' has {len(topic)} octets, the limit is {TOPIC_OCTETS_MAX}")
    if b"\0" in topic:
        raise RequestError(INVALID, f"{what} '{shown(topic)}' contains the null character")
    try:
        topic.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(INVALID, f"{what} '{shown(topic)}' is not UTF-8") from None


def check_topic(topic: bytes) -> None:
    """RequestError unless a message may be published to this topic over MQTT."""
    check_text("topic", topic)
    if b"+" in topic or b"#" in topic:
        raise RequestError(INVALID, f"topic '{shown(topic)}' contains a wildcard")
    split_levels(topic)


def check_filter(filter: bytes) -> None:
    """RequestError unless this is an MQTT topic filter."""
    check_text("topic filter", filter)
    levels = split_levels(filter)
    last = len(levels) - 1
    for index, level in enumerate(levels):
        if b"#" in level and (len(level) != 1 or index != last):
            raise RequestError(
                INVALID, f"topic filter '{shown(filter)}': '#' must be the last level and stand alone in it"
            )
        if b"+" in level and len(level) != 1:
            raise RequestError(INVALID, f"topic filter '{shown(filter)}': '+' must stand alone in its level")


def level_end(topic: bytes, start: i64, size: i64) -> i64:
    """Position of the '/' that ends the level at `start`, or the topic's end."""
    at = start
    while at < size and topic[at] != SLASH:
        at += 1
    return at


def same_octets(a: bytes, a_start: i64, b: bytes, b_start: i64, octets: i64) -> bool:
    """Return whether `octets` octets from both positions on are equal."""
    index: i64 = 0
    while index < octets:
        if a[a_start + index] != b[b_start + index]:
            return False
        index += 1
    return True


def matches(pattern: bytes, topic: bytes) -> bool:
    """Return whether a pattern matches a topic, without MQTT's rule for topics that begin with '$'.

    Only the last '#' passed is ever given more levels: what an earlier one could still take, the last one can. So the
    cost is at most the product of the two lengths.
    """
    if pattern == topic:
        return True
    pattern_size: i64 = len(pattern)
    topic_size: i64 = len(topic)
    # Positions are those of a level's first octet; one past the last level is size + 1. No octets: no levels.
    p: i64 = 0 if pattern_size else 1
    t: i64 = 0 if topic_size else 1
    retry_p: i64 = -1
    retry_t: i64 = 0
    while t <= topic_size:
        p_end: i64 = level_end(pattern, p, pattern_size) if p <= pattern_size else p
        if p <= pattern_size and p_end - p == 1 and pattern[p] == HASH:
            p += 2
            if p > pattern_size:
                return True
            retry_p = p
            retry_t = t
            continue
        t_end = level_end(topic, t, topic_size)
        if p <= pattern_size and (
            (p_end - p == 1 and pattern[p] == PLUS)
            or (p_end - p == t_end - t and same_octets(pattern, p, topic, t, t_end - t))
        ):
            p = p_end + 1
            t = t_end + 1
            continue
        if retry_p < 0:
            return False
        retry_t = level_end(topic, retry_t, topic_size) + 1
        t = retry_t
        p = retry_p
    while p <= pattern_size:
        p_end = level_end(pattern, p, pattern_size)
        if p_end - p != 1 or pattern[p] != HASH:
            return False
        p = p_end + 1
    return True


@final
class TrieNode:
    """The patterns that share one beginning.

    destinations  destination -> sequence number of its binding, for the pattern that ends here; in binding order
    loops         this node stands for '#': any further level stays here
    stamp         the last step of a match that reached this node
    """

    def __init__(self, loops: bool) -> None:
        self.children: dict[bytes, TrieNode] = {}
        self.plus: TrieNode | None = None
        self.hash: TrieNode | None = None
        self.destinations: dict[int, int] = {}
        self.loops = loops
        self.stamp: i64 = 0

    def is_empty(self) -> bool:
        return not self.destinations and not self.children and self.plus is None and self.hash is None

    def child(self, level: bytes) -> TrieNode | None:
        """Return the child node for a level of a pattern, or None if there is none."""
        if level == b"#":
            return self.hash
        if level == b"+":
            return self.plus
        return self.children.get(level)

    def set_child(self, level: bytes, node: TrieNode) -> None:
        if level == b"#":
            self.hash = node
        elif level == b"+":
            self.plus = node
        else:
            self.children[level] = node

    def drop_child(self, level: bytes) -> None:
        if level == b"#":
            self.hash = None
        elif level == b"+":
            self.plus = None
        else:
            del self.children[level]


@final
class TopicTrie:
    """Destinations that want a topic. A destination is an opaque number; binding it twice to one pattern is once."""

    def __init__(self) -> None:
        self.root = TrieNode(False)
        self.sequence = 0
        self.step: i64 = 0
        self.spent: i64 = 0  # steps of the last match

    def is_empty(self) -> bool:
        return self.root.is_empty()

    def add(self, pattern: bytes, destination: int) -> None:
        """Bind; the pattern is not checked (`check_filter`) beyond its number of levels."""
        node = self.root
        for level in split_levels(pattern):
            child = node.child(level)
            if child is None:
                child = TrieNode(level == b"#")
                node.set_child(level, child)
            node = child
        if destination not in node.destinations:
            self.sequence += 1
            node.destinations[destination] = self.sequence

    def remove(self, pattern: bytes, destination: int) -> bool:
        """Unbind; False if it was not bound. Nodes that led to nothing else go with it."""
        levels = split_levels(pattern)
        path: list[TrieNode] = []
        node = self.root
        for level in levels:
            child = node.child(level)
            if child is None:
                return False
            path.append(node)
            node = child
        if destination not in node.destinations:
            return False
        del node.destinations[destination]
        while path and node.is_empty():
            node = path.pop()
            node.drop_child(levels[len(path)])
        return True

    def match(self, topic: bytes, dollar_rule: bool) -> list[int]:
        """Distinct destinations whose pattern matches, in the order in which the matching patterns were bound.

        dollar_rule  a wildcard on the first level does not match a topic that starts with '$' [MQTT-4.7.2-1]
        """
        found = self.match_within(topic, dollar_rule, UNCUT)
        assert found is not None
        return found

    def match_within(self, topic: bytes, dollar_rule: bool, steps: i64) -> list[int] | None:
        """Match a topic as `match` does. Return None if that takes more steps; `spent` has those that it took."""
        levels = split_levels(topic)
        root = self.root
        step = self.step + 1
        plain_only = dollar_rule and len(topic) > 0 and topic[0] == DOLLAR
        active: list[TrieNode] = []
        if plain_only:
            active.append(root)
        else:
            reach(root, step, active)
        self.spent = len(active)
        for level in levels:
            step += 1
            following: list[TrieNode] = []
            for node in active:
                if node.loops:
                    reach(node, step, following)
                child = node.children.get(level)
                if child is not None:
                    reach(child, step, following)
                plus = node.plus
                if plus is not None and not plain_only:
                    reach(plus, step, following)
            plain_only = False
            active = following
            if not active:
                break
            self.spent += len(active)
            if self.spent > steps:
                self.step = step
                return None
        self.step = step
        if len(active) > 1:
            for node in active:
                self.spent += len(node.destinations)
            if self.spent > steps:
                return None
        elif active:
            self.spent += len(active[0].destinations)
            if self.spent > steps:
                return None
        return gather(active)


@final
class TopicSearch(CutWork):
    """The search for the destinations of one topic, or of several one after the other, cut wherever it has to be.

    Patterns may come and go meanwhile: one that is there from the beginning to the end is found, any other one perhaps.

    found  destinations, each with the first of the topics that led to it, in no order
    """

    def __init__(self, trie: TopicTrie, topics: list[bytes], dollar_rule: bool) -> None:
        super().__init__()
        self.trie = trie
        self.topics = topics
        self.dollar_rule = dollar_rule
        self.found: dict[int, bytes] = {}
        self.next: i64 = 0
        self.topic = b""
        self.levels: list[bytes] = []
        self.level: i64 = 0
        self.plain_only = False
        self.active: list[TrieNode] = []
        self.at: i64 = 0  # of the next node in `active`
        self.following: dict[TrieNode, None] = {}
        self.destinations: list[int] = []  # of the node before `at`, in the last level
        self.taken: i64 = 0

    def run(self, steps: i64) -> i64:
        while steps > 0:
            if self.level < len(self.levels):
                steps = self.run_level(steps)
            elif self.taken < len(self.destinations) or self.at < len(self.active):
                steps = self.gather(steps)
            elif self.next < len(self.topics):
                steps -= 1 + self.begin_topic()
            else:
                self.done = True
                return steps
        return 0

    def begin_topic(self) -> i64:
        """Go on to the next topic. Return the steps that it took."""
        topic = self.topics[self.next]
        self.next += 1
        self.topic = topic
        self.levels = split_levels(topic)
        self.level = 0
        self.plain_only = self.dollar_rule and len(topic) > 0 and topic[0] == DOLLAR
        if self.plain_only:
            self.active = [self.trie.root]
        else:
            reach_anew(self.trie.root, self.following)
            self.active = list(self.following)
            self.following = {}
        self.at = 0
        return len(self.active)

    def run_level(self, steps: i64) -> i64:
        """Go on within a level, and to the next one at its end. Return the steps that are left."""
        level = self.levels[self.level]
        active = self.active
        following = self.following
        at = self.at
        size: i64 = len(active)
        while at < size and steps > 0:
            node = active[at]
            at += 1
            before: i64 = len(following)
            if node.loops:
                reach_anew(node, following)
            child = node.children.get(level)
            if child is not None:
                reach_anew(child, following)
            plus = node.plus
            if plus is not None and not self.plain_only:
                reach_anew(plus, following)
            steps -= 1 + len(following) - before
        self.at = at
        if at == size:
            self.plain_only = False
            self.active = list(following)
            self.following = {}
            self.at = 0
            self.level = self.level + 1 if self.active else i64(len(self.levels))
        return steps

    def gather(self, steps: i64) -> i64:
        """Take the destinations of the nodes that the whole topic has led to. Return the steps that are left."""
        found = self.found
        topic = self.topic
        while steps > 0:
            destinations = self.destinations
            size: i64 = len(destinations)
            while self.taken < size and steps > 0:
                destination = destinations[self.taken]
                self.taken += 1
                steps -= 1
                if destination not in found:
                    found[destination] = topic
            if self.taken < size or self.at >= len(self.active):
                return steps
            self.destinations = list(self.active[self.at].destinations)
            self.taken = 0
            self.at += 1
            steps -= 1
        return steps


def reach_anew(node: TrieNode, found: dict[TrieNode, None]) -> None:
    """Add a node, as `reach` does: to a set that other matches do not share."""
    here: TrieNode | None = node
    while here is not None and here not in found:
        found[here] = None
        here = here.hash


def reach(node: TrieNode, step: i64, active: list[TrieNode]) -> None:
    """Add a node to the step's set, and with it every '#' right below: it may stand for no level at all."""
    here: TrieNode | None = node
    while here is not None and here.stamp != step:
        here.stamp = step
        active.append(here)
        here = here.hash


def gather(nodes: list[TrieNode]) -> list[int]:
    """Return the destinations of some nodes, each once, oldest binding first."""
    one: TrieNode | None = None
    several = False
    for node in nodes:
        if node.destinations:
            several = one is not None
            if several:
                break
            one = node
    if one is None:
        return []
    if not several:
        return list(one.destinations)
    by_sequence: dict[int, int] = {}
    for node in nodes:
        for destination, sequence in node.destinations.items():
            by_sequence[sequence] = destination
    seen: dict[int, None] = {}
    for sequence in sorted(by_sequence):
        seen[by_sequence[sequence]] = None
    return list(seen)


def find_destinations(trie: TopicTrie, topics: list[bytes], dollar_rule: bool, work: WorkInHand) -> dict[int, bytes]:
    """Return the destinations of topics, each with the first topic that led to it: for one topic the oldest first.

    Raise Later if that takes another turn. What is found by then stays in `work`, and destinations may be gone.
    """
    search = work.parts.get((trie, tuple(topics), dollar_rule)) if work.parts else None
    if search is None:
        found = find_at_once(trie, topics, dollar_rule, work)
        if found is not None:
            return found
        search = TopicSearch(trie, topics, dollar_rule)
        work.parts[trie, tuple(topics), dollar_rule] = search
    assert isinstance(search, TopicSearch)
    work.advance(search)
    return search.found


def find_at_once(trie: TopicTrie, topics: list[bytes], dollar_rule: bool, work: WorkInHand) -> dict[int, bytes] | None:
    """Find destinations as `find_destinations` does. Return None if that takes more steps than are done at once."""
    found: dict[int, bytes] = {}
    for topic in topics:
        numbers = trie.match_within(topic, dollar_rule, work.at_once)
        work.take_at_once(trie.spent)
        if numbers is None:
            return None
        for number in numbers:
            if number not in found:
                found[number] = topic
    return found
