"""Policies: what they may say, which one applies, and that it applies at once and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.catalog.policies import Policies, Policy, check_policy
from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from tests.node_rig import NodeRig

Table = dict[str, object]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NodeRig]:
    broker = NodeRig(tmp_path / "data")
    yield broker
    broker.close()


def declare(broker: NodeRig, name: bytes, **arguments: object) -> None:
    typed = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    broker.vhost.catalog.declare_queue(name, True, False, False, typed, 1)


def test_a_policy_applies_at_once_to_what_is_there_and_to_what_comes(broker: NodeRig) -> None:
    declare(broker, b"orders")
    declare(broker, b"other")
    limits = broker.vhost.catalog.queue(b"orders").limits
    set_policy(broker.vhost, "short", "^orders", {"message-ttl": 5, "dead-letter-exchange": "dead"})
    assert (limits.message_ttl_us, limits.dead_letter_exchange) == (5000, b"dead")
    assert broker.vhost.catalog.queue(b"orders").limits is limits
    assert broker.vhost.catalog.queue(b"orders").dirty and not broker.vhost.catalog.queue(b"other").dirty
    assert broker.vhost.catalog.queue(b"other").limits.message_ttl_us == -1
    declare(broker, b"orders.new", message_ttl=3)
    assert broker.vhost.catalog.queue(b"orders.new").limits.message_ttl_us == 3000

    set_policy(broker.vhost, "short", "^other", {"message-ttl": 7})
    assert (limits.message_ttl_us, limits.dead_letter_exchange) == (-1, None)
    assert broker.vhost.catalog.queue(b"other").limits.message_ttl_us == 7000

    clear_policy(broker.vhost, "short")
    assert broker.vhost.catalog.queue(b"other").limits.message_ttl_us == -1
    with pytest.raises(RequestError, match="no policy 'short'") as caught:
        clear_policy(broker.vhost, "short")
    assert caught.value.reason == NOT_FOUND


def test_the_highest_priority_applies_alone_and_an_operators_beside_it(broker: NodeRig) -> None:
    declare(broker, b"q")
    limits = broker.vhost.catalog.queue(b"q").limits
    set_policy(broker.vhost, "low", "q", {"max-length": 5, "expires": 9}, 1)
    set_policy(broker.vhost, "high", "q", {"max-length": 7}, 2)
    assert (limits.max_messages, limits.expires_us) == (7, 0)
    set_policy(broker.vhost, "ops", "q", {"max-length": 3, "expires": 4}, operator=True)
    assert (limits.max_messages, limits.expires_us) == (3, 4000)
    clear_policy(broker.vhost, "high")
    clear_policy(broker.vhost, "ops", operator=True)
    assert (limits.max_messages, limits.expires_us) == (5, 9000)


def test_of_one_priority_the_first_by_name_applies() -> None:
    policies = Policies()
    for name in ("b", "a", "c"):
        policies.by_user[name] = check_policy(name, False, "", "all", {"max-length": 1}, 0)
    found = policies.match(b"q", "classic_queues", False)
    assert found is not None and found.name == "a"


@pytest.mark.parametrize(
    ("apply_to", "covered"),
    [
        ("all", {"classic_queues", "quorum_queues", "streams", "exchanges"}),
        ("queues", {"classic_queues", "quorum_queues", "streams"}),
        ("classic_queues", {"classic_queues"}),
        ("quorum_queues", {"quorum_queues"}),
        ("streams", {"streams"}),
        ("exchanges", {"exchanges"}),
    ],
)
def test_a_policy_says_what_it_is_about(apply_to: str, covered: set[str]) -> None:
    policy = check_policy("p", False, "^a.*z$", apply_to, {"max-length": 1}, 0)
    for target in ("classic_queues", "quorum_queues", "streams", "exchanges"):
        assert policy.covers(b"abcz", target) == (target in covered)
        assert not policy.covers(b"abc", target)


def test_types_of_queues_have_policies_of_their_own(broker: NodeRig) -> None:
    for queue_type in ("classic", "quorum", "stream"):
        declare(broker, queue_type.encode(), queue_type=queue_type)
    set_policy(broker.vhost, "c", "", {"max-length-bytes": 1}, apply_to="classic_queues")
    set_policy(broker.vhost, "q", "", {"max-length-bytes": 2}, apply_to="quorum_queues")
    set_policy(broker.vhost, "s", "", {"max-length-bytes": 3}, apply_to="streams")
    found = {name: broker.vhost.catalog.queue(name).limits.max_octets for name in (b"classic", b"quorum", b"stream")}
    assert found == {b"classic": 1, b"quorum": 2, b"stream": 3}


def test_an_exchange_gets_its_alternate_from_a_policy_unless_it_was_declared_with_one(broker: NodeRig) -> None:
    vhost = broker.vhost
    for name, arguments in ((b"plain", {}), (b"own", {"alternate-exchange": "mine"})):
        vhost.catalog.declare_exchange(name, b"direct", True, False, False, dict(arguments))
    set_policy(vhost, "ae", ".*", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    vhost.catalog.declare_exchange(b"later", b"direct", True, False, False, {})
    expected = {b"plain": b"amq.fanout", b"later": b"amq.fanout", b"own": b"mine", b"": None}
    assert {name: vhost.catalog.check_exchange(name).alternate for name in expected} == expected
    broker.flush()
    broker.crash()
    assert {name: broker.vhost.catalog.check_exchange(name).alternate for name in expected} == expected
    clear_policy(broker.vhost, "ae")
    assert broker.vhost.catalog.check_exchange(b"plain").alternate is None
    assert broker.vhost.catalog.check_exchange(b"own").alternate == b"mine"


def test_policies_are_there_after_a_restart_and_in_force(broker: NodeRig) -> None:
    declare(broker, b"q")
    definition: Table = {"max-length": 3, "overflow": "reject-publish"}
    set_policy(broker.vhost, "gone", "", {"max-length": 1}, 9)
    set_policy(broker.vhost, "kept", "^q$", definition, 2, "queues")
    set_policy(broker.vhost, "ops", "", {"max-length-bytes": 8}, operator=True)
    clear_policy(broker.vhost, "gone")
    for _ in range(2):  # from the log first, then from its checkpoint
        broker.flush()
        broker.crash()
        policies = broker.vhost.catalog.policies
        listed = [policy.fields() for policy in policies.listed_all()]
        assert listed == [
            {
                "name": "kept",
                "operator": False,
                "pattern": "^q$",
                "apply_to": "queues",
                "definition": definition,
                "priority": 2,
            },
            {
                "name": "ops",
                "operator": True,
                "pattern": "",
                "apply_to": "all",
                "definition": {"max-length-bytes": 8},
                "priority": 0,
            },
        ]
        limits = broker.vhost.catalog.queue(b"q").limits
        assert (limits.max_messages, limits.max_octets, limits.overflow) == (3, 8, 1)


# The keys, who may set them and the nouns were measured on RabbitMQ 4.0.
USER_KEYS: Table = {
    "dead-letter-exchange": "x",
    "dead-letter-routing-key": "k",
    "dead-letter-strategy": "at-least-once",
    "consumer-timeout": 5,
    "queue-leader-locator": "client-local",
    "alternate-exchange": "x",
    "max-age": "1h",
    "queue-mode": "lazy",
    "stream-max-segment-size-bytes": 500,
    "stream-filter-size-bytes": 20,
    "initial-cluster-size": 3,
    "delayed-retry-type": "all",
    "delayed-retry-min": 5,
    "delayed-retry-max": 5,
    "delayed-retry-multiplier": 2.5,
    "nack-counts": False,
    "lease-period": 5,
    "max-backlog": 5,
    "deferred-ack": 5,
    "max-deliveries": 5,
    "max-cancels": 5,
    "dead-letter-reasons": "amps",
    "max-subscription-backlog": 5,
    "fairness": "fast",
    "fair-weight": "gold=5",
    "dlq": True,
}
OPERATOR_KEYS: Table = {
    "message-ttl": 0,
    "expires": 5,
    "max-length": 5,
    "max-length-bytes": 5,
    "overflow": "drop-head",
    "delivery-limit": -2,
    "target-group-size": 3,
    "max-in-memory-length": 5,
    "max-in-memory-bytes": 5,
    "queue-version": 2,
    "queue-master-locator": "min-masters",
}


def refusal(definition: object, operator: bool = False, other: Table | None = None) -> str:
    fields: Table = {"pattern": "", "apply_to": "all", "priority": 0, **(other or {})}
    with pytest.raises(RequestError) as caught:
        check_policy("p", operator, fields["pattern"], fields["apply_to"], definition, fields["priority"])
    assert caught.value.reason == INVALID
    return caught.value.text


@pytest.mark.parametrize("key", [*USER_KEYS, *OPERATOR_KEYS])
def test_what_operators_may_set_is_less_than_what_users_may(key: str) -> None:
    definition = {key: {**USER_KEYS, **OPERATOR_KEYS}[key]}
    assert check_policy("p", False, "", "all", definition, 0).definition == definition
    if key in OPERATOR_KEYS:
        assert check_policy("p", True, "", "all", definition, 0).operator
    else:
        assert refusal(definition, True).startswith(f"operator policy 'p': '{key}' (value ")


@pytest.mark.parametrize("key", ["single-active-consumer", "max-priority", "ha-mode", "unknown", "queue-type", ""])
def test_another_key_is_refused_with_its_value(key: str) -> None:
    assert refusal({key: 77}).startswith(f"policy 'p': '{key}' (value 77) is not recognised; ")


@pytest.mark.parametrize(
    ("key", "value", "noun"),
    [
        ("message-ttl", "x", "message TTL"),
        ("message-ttl", -1, "message TTL"),
        ("message-ttl", 1.5, "message TTL"),
        ("message-ttl", True, "message TTL"),
        ("expires", 0, "queue expiry"),
        ("max-length", -1, "maximum length"),
        ("max-length-bytes", -1, "maximum length in bytes"),
        ("overflow", "x", "overflow value"),
        ("overflow", 5, "overflow value"),
        ("dead-letter-exchange", 5, "dead letter exchange name"),
        ("dead-letter-exchange", "\ud800", "dead letter exchange name"),
        ("dead-letter-routing-key", 5, "dead letter routing key"),
        ("dead-letter-strategy", "x", "dead letter strategy"),
        ("delivery-limit", "x", "delivery limit"),
        ("consumer-timeout", -1, "consumer timeout"),
        ("queue-leader-locator", "x", "queue leader locator value"),
        ("alternate-exchange", 5, "alternate exchange name"),
        ("max-age", "1w", "max age"),
        ("queue-version", 3, "queue-version value"),
        ("queue-mode", "x", "queue-mode value"),
        ("stream-max-segment-size-bytes", -1, "segment size"),
    ],
)
def test_a_wrong_value_is_refused_by_key_and_value(key: str, value: object, noun: str) -> None:
    assert refusal({key: value}) == f"policy 'p': {key}: {value!r} is not a valid {noun}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"pattern": "["}, "pattern: '[' is no regular expression: "),
        ({"pattern": "a(?!b)"}, "pattern: 'a(?!b)' is no regular expression: character 3: look-around is not known"),
        ({"pattern": "(a)\\1"}, "is a back-reference, which is not known here"),
        ({"pattern": 5}, "pattern: 5 is no text"),
        ({"pattern": "x" * 1025}, "is no text of at most 1024 octets"),
        ({"apply_to": "nope"}, "apply-to: 'nope' is none of all, queues, "),
        ({"apply_to": ["all"]}, "apply-to: ['all'] is none of"),
        ({"priority": "x"}, "priority: 'x' is not a whole number"),
        ({"priority": True}, "priority: True is not a whole number"),
        ({"priority": 1 << 31}, "priority: 2147483648 is not a whole number"),
    ],
)
def test_a_field_out_of_its_domain_is_refused(fields: Table, text: str) -> None:
    assert text in refusal({"max-length": 1}, other=fields)


@pytest.mark.parametrize("definition", [{}, [], "x", None])
def test_a_policy_says_something(definition: object) -> None:
    assert "definition: " in refusal(definition)


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"])
def test_a_name_can_be_written_down(name: str) -> None:
    with pytest.raises(RequestError, match="is no text of 1 to 255 octets"):
        check_policy(name, False, "", "all", {"max-length": 1}, 0)


def test_a_refused_policy_changes_nothing(broker: NodeRig) -> None:
    declare(broker, b"q")
    set_policy(broker.vhost, "p", "q", {"max-length": 1})
    with pytest.raises(RequestError):
        set_policy(broker.vhost, "p", "q", {"max-length": 2, "expires": 0})
    assert broker.vhost.catalog.queue(b"q").limits.max_messages == 1


def test_patterns_as_policies_of_rabbitmq_have_them() -> None:
    for pattern, covered in (
        (r"^(?!amq\.).*", {b"orders"}),
        (r"^amq\.", {b"amq.gen-1"}),
        ("(?i)^ORD", {b"orders"}),
        ("", {b"orders", b"amq.gen-1"}),
    ):
        policy = check_policy("p", False, pattern, "queues", {"max-length": 1}, 0)
        assert {name for name in (b"orders", b"amq.gen-1") if policy.covers(name, "classic_queues")} == covered


def test_a_pattern_that_was_stored_and_is_none_any_more_covers_nothing() -> None:
    policies = Policies()
    policies.by_user["p"] = Policy("p", False, r"(a)\1", "queues", {"max-length": 1}, 0)
    assert policies.find("p", False).pattern == r"(a)\1"
    assert policies.match(b"aa", "classic_queues", False) is None
