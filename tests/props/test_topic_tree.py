"""The tree of topics against a plain dictionary and the matcher of one filter."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.routing.topic_tree import TopicTree
from forebay.routing.topic_trie import matches

LEVEL = st.sampled_from([b"a", b"b", b"", b"$x", b"aa"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=5).map(b"/".join)
FILTER = st.tuples(st.lists(st.one_of(LEVEL, st.just(b"+")), max_size=5), st.booleans()).map(
    lambda drawn: b"/".join([*drawn[0], b"#"] if drawn[1] or not drawn[0] else drawn[0])
)
ACTION = st.tuples(st.sampled_from(["set", "set", "remove"]), TOPIC, st.integers(-5, 5))


def fits(filter: bytes, topic: bytes) -> bool:
    if topic.startswith(b"$") and filter[:1] in (b"+", b"#"):
        return False
    if not topic:
        # To `matches` no octets are no levels; to MQTT they would be one level that is empty.
        return filter in (b"", b"+", b"#", b"+/#", b"/#")
    return matches(filter, topic)


@given(st.lists(ACTION, max_size=40), st.lists(FILTER, min_size=1, max_size=5))
def test_a_filter_finds_what_a_dictionary_holds(actions: list[tuple[str, bytes, int]], filters: list[bytes]) -> None:
    tree = TopicTree()
    model: dict[bytes, int] = {}
    for action, topic, value in actions:
        if action == "set":
            tree.set(topic, value)
            model[topic] = value
        else:
            assert tree.remove(topic) == (topic in model)
            model.pop(topic, None)
        assert tree.get(topic) == model.get(topic)
        assert tree.size() == len(model)
    for filter in filters:
        expected = sorted(value for topic, value in model.items() if fits(filter, topic))
        assert sorted(tree.match(filter)) == expected
    for topic in list(model):
        assert tree.remove(topic)
    assert tree.is_empty()
