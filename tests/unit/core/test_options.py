"""The options table: what is read, what is refused, and how the refusal reads."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import OptionError
from forebay.core.option_groups import CLASSIC, STREAM, PermissionOptions, QueueOptions, RetentionOptions
from forebay.core.option_table import BOOLEAN, INTEGER, MIB, PATTERN, option_fields, split_address
from forebay.core.options import Options, make_options

INTEGERS = [(name, spec) for name, spec, _ in option_fields(Options) if spec.kind == INTEGER]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def refused(values: dict[str, object]) -> str:
    with pytest.raises(OptionError) as caught:
        make_options(values)
    return str(caught.value)


def test_defaults_pass_their_own_checks() -> None:
    defaults: dict[str, object] = {
        name: default for name, spec, default in option_fields(Options) if default is not MISSING and spec.inner is None
    }
    assert make_options(defaults) == make_options({}) == Options()


def test_every_option_is_documented() -> None:
    for table in (Options, QueueOptions, RetentionOptions):
        for name, spec, _ in option_fields(table):
            assert spec.doc.endswith("."), name
            assert spec.domain(), name
            assert spec.kind != INTEGER or (spec.unit and spec.least < spec.most), name


def test_what_an_option_may_be_is_what_it_takes() -> None:
    """A text that may be empty, or a URL, was said to be a file or a pattern, and an empty description was refused."""
    tables = [Options, *(spec.inner for _, spec, _ in option_fields(Options) if spec.inner is not None)]
    patterns = [(table, name) for table in tables for name, spec, _ in option_fields(table) if spec.kind == PATTERN]
    assert patterns == [(PermissionOptions, name) for name in ("configure", "write", "read")]
    vhost = make_options({"vhosts": [{"name": "a", "description": ""}]}).vhosts[0]
    assert (vhost.name, vhost.description) == ("a", "")
    for table in tables:
        for name, spec, default in option_fields(table):
            if default == "" and not spec.choices:
                assert "empty for" in spec.domain(), name


def test_options_are_frozen() -> None:
    options = make_options({})
    with pytest.raises(FrozenInstanceError):
        options.data = "elsewhere"  # type: ignore[misc]


def test_a_default_that_can_change_is_not_shared() -> None:
    make_options({}).users["mallory"] = "let me in"
    assert "mallory" not in make_options({}).users


@pytest.mark.parametrize(("name", "spec"), INTEGERS, ids=lambda each: each if isinstance(each, str) else "")
def test_an_integer_is_taken_at_its_bounds_and_refused_beyond(name: str, spec: object) -> None:
    least, most = next((each.least, each.most) for other, each in INTEGERS if other == name)
    for good in (least, most):
        if not name.startswith("wal_"):  # these two also have to fit each other
            assert getattr(make_options({name: good}), name) == good
    wrong: list[object] = [least - 1, most + 1, True, 1.5, None, "", "many", "9" * 30, []]
    for bad in wrong:
        text = refused({name: bad})
        assert name in text
        assert f"{least} to {most}" in text


@pytest.mark.parametrize(
    ("text", "octets"), [("4194304", 4 * MIB), ("4MiB", 4 * MIB), (" 4 mib ", 4 * MIB), ("4096 KiB", 4 * MIB)]
)
def test_octets_may_have_a_unit(text: str, octets: int) -> None:
    assert make_options({"message_octets_max": text}).message_octets_max == octets


def test_only_octets_have_a_unit() -> None:
    assert "amqp_heartbeat_s: '1KiB'" in refused({"amqp_heartbeat_s": "1KiB"})
    assert "message_octets_max: '1 MB'" in refused({"message_octets_max": "1 MB"})


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    assert refused({"wall_octets_max": 1}) == "wall_octets_max: no such option; did you mean wal_octets_max?"
    assert refused({"AMQP-heartbeat": 1}).endswith("did you mean amqp_heartbeat_s?")
    assert "known are data, amqp" in refused({"zzzzzzzzzz": 1})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:5672", "::1", 5672), ("broker.example:65535", "broker.example", 65535)],
)
def test_an_address_is_split(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)
    assert make_options({"amqp": text}).amqp == text


@pytest.mark.parametrize("text", ["foo", ":1883", "::1:5672", "host:", "host:65536", "host:-1", "host:1 ", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert refused({"mqtt": text}).startswith(f"mqtt: {text!r} is not HOST:PORT")


def test_an_empty_address_is_no_listener() -> None:
    assert make_options({"mqtt": ""}).mqtt == ""


def test_another_server_has_a_port_that_is_known() -> None:
    assert make_options({"mqtt_redirect": "[::1]:1884"}).mqtt_redirect == "[::1]:1884"
    assert make_options({"mqtt_redirect": ""}).mqtt_redirect == ""
    assert "'b:0' is out of range; must be HOST:PORT with a port from 1" in refused({"mqtt_redirect": "b:0"})
    assert refused({"mqtt_redirect": "b"}).startswith("mqtt_redirect: 'b' is not HOST:PORT")


BOOLEANS = [name for name, spec, _ in option_fields(Options) if spec.kind == BOOLEAN]


@pytest.mark.parametrize("name", BOOLEANS)
def test_a_boolean_is_taken_as_such_and_as_text(name: str) -> None:
    good: list[tuple[object, bool]] = [(True, True), (False, False), ("true", True), (" False ", False)]
    for value, meant in good:
        assert getattr(make_options({name: value}), name) is meant
    wrong: list[object] = [0, 1, "1", "yes", "", None, [], 1.0]
    for bad in wrong:
        assert refused({name: bad}) == f"{name}: {bad!r} is out of range; must be true or false"


def test_a_file_may_be_none() -> None:
    assert make_options({"tls_key": ""}).tls_key == make_options({}).tls_key == ""
    assert make_options({"tls_key": "/etc/forebay/key.pem"}).tls_key == "/etc/forebay/key.pem"
    assert refused({"tls_key": 1}) == "tls_key: 1 is out of range; must be the path of a file, empty for none"


@pytest.mark.parametrize("version", ["1.3", 1.3])
def test_a_version_may_be_a_number_as_yaml_reads_it(version: object) -> None:
    assert make_options({"tls_minimum_version": version}).tls_minimum_version == "1.3"
    assert refused({"tls_minimum_version": 1.1}) == "tls_minimum_version: 1.1 is out of range; must be 1.2 or 1.3"


def test_priorities_are_topics_with_numbers() -> None:
    assert make_options({"mqtt_mqueue_priorities": {"a/b": 1, "c": 255}}).mqtt_mqueue_priorities == {"a/b": 1, "c": 255}
    assert make_options({"mqtt_mqueue_priorities": '{"a/b": 7}'}).mqtt_mqueue_priorities == {"a/b": 7}
    assert make_options({}).mqtt_mqueue_priorities == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 0}, "mqtt_mqueue_priorities.a: 0 is out of range"),
        ({"a": 256}, "mqtt_mqueue_priorities.a: 256 is out of range"),
        ({"a": True}, "mqtt_mqueue_priorities.a: True is out of range"),
        ({"a/+": 1}, "mqtt_mqueue_priorities: 'a/+' is no topic"),
        ({"a/#": 1}, "mqtt_mqueue_priorities: 'a/#' is no topic"),
        ({"": 1}, "mqtt_mqueue_priorities: '' is no topic"),
        ({1: 1}, "mqtt_mqueue_priorities: 1 is no topic"),
        (["a"], "mqtt_mqueue_priorities: ['a'] is out of range"),
        ("a=1", "mqtt_mqueue_priorities: not JSON"),
    ],
)
def test_what_is_no_priority_is_refused(value: object, text: str) -> None:
    said = refused({"mqtt_mqueue_priorities": value})
    assert said.startswith(text)
    assert said.endswith("must be MQTT topics, each with a priority from 1 to 255")


def test_a_choice_is_one_of_those_listed() -> None:
    assert make_options({"mqtt_shared_strategy": "sticky"}).mqtt_shared_strategy == "sticky"
    assert "'fastest' is out of range; must be round_robin or random or" in refused({"mqtt_shared_strategy": "fastest"})
    assert make_options({"mqtt_auth_methods": []}).mqtt_auth_methods == []
    assert make_options({"mqtt_auth_methods": '["SCRAM-SHA-512"]'}).mqtt_auth_methods == ["SCRAM-SHA-512"]
    assert "must be a list of SCRAM-SHA-256 or SCRAM-SHA-512" in refused({"mqtt_auth_methods": ["SCRAM-MD5"]})


def test_a_queue_has_its_own_table() -> None:
    options = make_options(
        {
            "queues": [
                {"name": "orders", "topics": ["shop/+/orders"], "visibility_timeout_ms": 5},
                {"name": "audit", "type": "stream", "retention": {"max_age_s": 60}},
            ]
        }
    )
    assert options.queues[0] == QueueOptions("orders", ["shop/+/orders"], CLASSIC, 5, RetentionOptions())
    assert options.queues[1] == QueueOptions("audit", [], STREAM, 0, RetentionOptions(max_age_s=60))


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        ({}, "queues[0].name: missing"),
        ({"name": ""}, "queues[0].name: '' is out of range"),
        ({"name": "a", "type": "heap"}, "queues[0].type: 'heap' is out of range; must be classic or quorum or stream"),
        ({"name": "a", "topic": ["b"]}, "queues[0].topic: no such option; did you mean queues[0].topics?"),
        ({"name": "a", "topics": "b"}, "queues[0].topics: not JSON"),
        ({"name": "a", "topics": [1]}, "queues[0].topics: [1] is out of range; must be a list of texts, none empty"),
        ({"name": "a", "retention": {"max_age_s": -1}}, "queues[0].retention.max_age_s: -1 is out of range"),
        ({"name": "a", "retention": 5}, "queues[0].retention: 5 is not a set of keys"),
        (5, "queues[0].: 5 is not a set of keys and values"),
    ],
)
def test_a_bad_queue_is_refused_with_its_place(queue: object, text: str) -> None:
    assert refused({"queues": [queue]}).replace("queues[0]: 5", "queues[0].: 5").startswith(text)


def test_two_queues_of_one_name_are_refused() -> None:
    assert "'a' is there twice" in refused({"queues": [{"name": "a"}, {"name": "a"}]})


def test_a_chunk_longer_than_its_file_is_refused() -> None:
    assert "more than wal_octets_max" in refused({"wal_octets_max": MIB, "wal_chunk_octets": 2 * MIB})


def test_lists_and_tables_may_be_json() -> None:
    options = make_options({"users": '{"a": "b"}', "loopback_users": "[]", "queues": '[{"name": "q"}]'})
    assert options.users == {"a": "b"}
    assert options.loopback_users == []
    assert options.queues[0].name == "q"
    assert refused({"users": "a:b"}).startswith("users: not JSON")


def test_a_password_is_never_shown() -> None:
    for users in ({"": "secret"}, {"a": ["secret"]}, ["secret"]):
        assert "secret" not in refused({"users": users})


@given(st.dictionaries(st.sampled_from([name for name, _, _ in option_fields(Options)]) | st.text(), JSON))
def test_any_values_give_options_or_an_option_error(values: dict[str, object]) -> None:
    try:
        options = make_options(values)
    except OptionError:
        return
    assert set(values) <= {name for name, _, _ in option_fields(Options)}
    assert options.wal_chunk_octets <= options.wal_octets_max
