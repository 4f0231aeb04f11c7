"""Queues of the configuration: what their entries mean, and what becomes of queues that are there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError
from forebay.core.option_cluster import ClusterOptions
from forebay.core.options import Options, make_options
from forebay.log.store import Store
from forebay.management.definitions.configured import configured_arguments, declare_configured, wanted_queues
from tests.stores import SMALL, SmallDisk, TestClock


@pytest.fixture
def vhosts(tmp_path: Path) -> Vhosts:
    store = Store(SmallDisk(str(tmp_path)), TestClock(), SMALL)
    recovery = store.open()
    made = Vhosts(store, make_options({}), b"")
    made.recover(recovery.entries, 0)
    store.start(made.checkpoint())
    return made


def options(**entry: object) -> Options:
    return make_options({"queues": [{"name": "q", **entry}]})


def arguments(**entry: object) -> dict[str, object]:
    return configured_arguments(options(**entry).queues[0], "queues[0]", ClusterOptions())


def test_limits_retries_and_dead_letters_are_arguments() -> None:
    assert arguments(
        limits={"max_depth": 5, "message_ttl": "1h", "max_message_size": 100},
        retry={
            "max_retries": 3,
            "initial_backoff": "5s",
            "max_backoff": "5m",
            "multiplier": 2,
            "total_timeout": "3h",
        },
        dlq={"enabled": True},
        visibility_timeout_ms="90s",
        primary_group="workers",
    ) == {
        "x-queue-type": "classic",
        "x-max-length": 5,
        "x-overflow": "reject-publish",
        "x-message-ttl": 3_600_000,
        "x-delivery-limit": 3,
        "x-max-message-size": 100,
        "x-retry-timeout": 10_800_000,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 5_000,
        "x-delayed-retry-max": 300_000,
        "x-delayed-retry-backoff": "exponential",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "$dlq/q",
        "x-visibility-timeout": 90_000,
        "x-primary-group": "workers",
    }


def test_what_is_left_out_is_no_argument() -> None:
    assert arguments() == {"x-queue-type": "classic"}
    brief = {"x-queue-type": "stream", "x-message-ttl": 3_600_000}
    assert arguments(type="stream", limits={"message_ttl": "1h"}) == brief


def test_a_multiplier_of_one_waits_the_same_each_time() -> None:
    made = arguments(retry={"initial_backoff": "5s", "max_backoff": "5m", "multiplier": 1})
    assert (made["x-delayed-retry-min"], made["x-delayed-retry-max"]) == (5_000, 5_000)
    assert "x-delayed-retry-backoff" not in made


@pytest.mark.parametrize("multiplier", [1.5, "1.5", 3])
def test_a_multiplier_is_any_number_from_one_on(multiplier: object) -> None:
    made = arguments(retry={"initial_backoff": "5s", "max_backoff": "5m", "multiplier": multiplier})
    assert (made["x-delayed-retry-backoff"], made["x-delayed-retry-max"]) == ("exponential", 300_000)
    assert made["x-delayed-retry-multiplier"] == float(str(multiplier))


@pytest.mark.parametrize("multiplier", [0.9, "two", -1, True, 1e9, "nan"])
def test_a_multiplier_below_one_is_refused(multiplier: object) -> None:
    with pytest.raises(OptionError, match=r"queues\[0\]\.retry\.multiplier: .* a number from 1 to 1000000"):
        arguments(retry={"multiplier": multiplier})


def test_retries_count_whatever_the_type_of_queue() -> None:
    assert arguments(type="quorum", retry={"max_retries": 3})["x-nack-counts"] is True


@pytest.mark.parametrize(
    ("topic", "exchange", "key"),
    [
        ("", "", "$dlq/q"),
        ("$queue/dead", "", "dead"),
        ("$queue/dead/of/q", "", "$queue/dead/of/q"),
        ("dead/q", "amq.topic", "dead.q"),
    ],
)
def test_dead_letters_go_to_a_queue_or_a_topic(topic: str, exchange: str, key: str) -> None:
    made = arguments(dlq={"enabled": True, "topic": topic})
    assert (made["x-dead-letter-exchange"], made["x-dead-letter-routing-key"]) == (exchange, key)


def test_a_broker_that_stands_alone_replicates_nothing() -> None:
    with pytest.raises(OptionError, match=r"queues\[0\]\.replication\.enabled: True cannot be: .* stands alone"):
        arguments(replication={"enabled": True})
    assert arguments(replication={"enabled": False, "replication_factor": 3}) == {"x-queue-type": "classic"}


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("limits.max_depth", {"limits": {"max_depth": 5}}),
        ("retry.max_retries", {"retry": {"max_retries": 0}}),
        ("retry.initial_backoff", {"retry": {"initial_backoff": "1s"}}),
        ("retry.total_timeout", {"retry": {"total_timeout": "1h"}}),
        ("dlq.enabled", {"dlq": {"enabled": True}}),
    ],
)
def test_a_stream_refuses_what_cannot_be_in_force_on_it(key: str, entry: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=rf"queues\[0\]\.{key} cannot be in force on a stream"):
        arguments(type="stream", **entry)
    assert arguments(type="stream", limits={"max_message_size": 5})["x-max-message-size"] == 5


def test_retention_is_in_force_on_queues_whose_messages_are_settled() -> None:
    kept = {"max_age": "1h", "max_length_messages": 5, "max_length_bytes": 500}
    assert arguments(retention=kept) == {
        "x-queue-type": "classic",
        "x-message-ttl": 3_600_000,
        "x-overflow": "drop-head",
        "x-max-length": 5,
        "x-max-length-bytes": 500,
    }
    assert arguments(retention={"max_age": "2h"}, limits={"message_ttl": "1h"})["x-message-ttl"] == 3_600_000
    wrong = r"queues\[0\]\.retention\.max_length_messages: 5 drops the oldest, and limits\.max_depth: 3 refuses"
    with pytest.raises(OptionError, match=wrong):
        arguments(retention={"max_length_messages": 5}, limits={"max_depth": 3})


def test_a_queue_that_is_there_gets_what_the_entry_says_and_keeps_the_rest(vhosts: Vhosts) -> None:
    vhost = vhosts.by_name[b"/"]
    vhost.catalog.declare_queue(b"q", True, False, False, {"x-max-length": 7, "x-max-priority": 3}, 1)
    declare_configured(vhosts, options(limits={"message_ttl": "1s"}))
    queue = vhost.catalog.queues[b"q"]
    assert queue.spec.arguments == {"x-queue-type": "classic", "x-max-priority": 3, "x-message-ttl": 1000}
    assert queue.limits.max_messages < 0, "the entry sets no limit of length"


def test_the_queue_of_dead_letters_is_made_unless_an_entry_makes_it(vhosts: Vhosts) -> None:
    wanted = options(dlq={"enabled": True})
    assert list(wanted_queues(vhosts, wanted)) == [b"q", b"$dlq/q"]
    letters = {"name": "$dlq/q", "limits": {"max_depth": 3}}
    own = make_options({"queues": [letters, {"name": "q", "dlq": {"enabled": True}}]})
    spec, _ = wanted_queues(vhosts, own)[b"$dlq/q"]
    assert spec.arguments["x-max-length"] == 3
    declare_configured(vhosts, wanted)
    assert set(vhosts.by_name[b"/"].catalog.queues) == {b"q", b"$dlq/q"}


def test_a_reserved_queue_takes_what_no_other_takes(vhosts: Vhosts) -> None:
    entries = [{"name": "rest", "topics": ["$queue/#"], "reserved": True}, {"name": "orders", "topics": ["a/#"]}]
    declare_configured(vhosts, make_options({"queues": entries}))
    vhost = vhosts.by_name[b"/"]
    assert vhost.catalog.fallback is vhost.catalog.queues[b"rest"]
    assert [queue.name for queue in vhost.router.queues_at(b"$queue/orders/x")] == [b"orders"]
    assert [queue.name for queue in vhost.router.queues_at(b"$queue/nothing/x")] == [b"rest"]


def test_a_queue_of_another_type_is_an_error_and_nothing_is_made(vhosts: Vhosts) -> None:
    vhosts.by_name[b"/"].catalog.declare_queue(b"q", True, False, False, {}, 1)
    both = make_options({"queues": [{"name": "new"}, {"name": "q", "type": "stream"}]})
    with pytest.raises(OptionError, match="'q' is to be a stream queue, but there is a classic queue of that name"):
        declare_configured(vhosts, both)
    assert b"new" not in vhosts.by_name[b"/"].catalog.queues


CLUSTER = ClusterOptions(name="shop", members=3)


def replicated(cluster: ClusterOptions = CLUSTER, **wanted: object) -> dict[str, object]:
    """The arguments of a queue that asks for these in a cluster."""
    entry = options(type="quorum", replication={"enabled": True, **wanted}).queues[0]
    return configured_arguments(entry, "queues[0]", cluster)


def test_what_a_cluster_gives_or_more_is_in_force() -> None:
    as_much = replicated(group="shop", replication_factor=3, min_in_sync_replicas=2, mode="sync")
    assert as_much == {"x-queue-type": "quorum"}
    assert replicated(replication_factor=1, min_in_sync_replicas=1, mode="async") == {"x-queue-type": "quorum"}
    assert replicated(replace(CLUSTER, mode="async"), mode="async") == {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("cluster", "field", "value", "why"),
    [
        (CLUSTER, "group", "other", "every queue is of 'shop'"),
        (CLUSTER, "replication_factor", 5, "more than cluster.members (3)"),
        (CLUSTER, "min_in_sync_replicas", 3, "more than cluster.min_in_sync (2)"),
        (replace(CLUSTER, mode="async"), "mode", "sync", "cluster.mode is 'async'"),
        (CLUSTER, "ack_timeout_ms", 5000, "however long that takes"),
    ],
)
def test_what_asks_for_more_than_the_cluster_gives_is_refused(
    cluster: ClusterOptions, field: str, value: object, why: str
) -> None:
    with pytest.raises(OptionError) as caught:
        replicated(cluster, **{field: value})
    assert f"queues[0].replication.{field}: {value!r}" in str(caught.value)
    assert why in str(caught.value)


def test_an_order_is_an_argument_which_a_queue_keeps(vhosts: Vhosts) -> None:
    assert arguments(order={"priority_expression": "/qty"}) == {
        "x-queue-type": "classic",
        "x-priority-expression": "/qty",
    }
    with pytest.raises(OptionError, match=r"queues\[0\]\.order cannot be in force on a stream"):
        arguments(type="stream", order={"priority_expression": "/qty"})
    declare_configured(vhosts, options(order={"priority_expression": "/qty"}))
    declare_configured(vhosts, options(order={"priority_expression": "/qty"}))
    declare_configured(vhosts, options())
    with pytest.raises(OptionError, match="'q' is there with another x-priority-expression"):
        declare_configured(vhosts, options(order={"priority_expression": "/price"}))
