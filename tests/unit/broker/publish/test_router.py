"""From exchange to exchange: each queue once, alternates, and what depends on a message's content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import Subscription
from forebay.broker.publish.route import Route
from forebay.broker.publish.router import REMEMBERED_OCTETS_MAX
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.core.message import ACCEPTED, AMQP091, MQTT, Properties
from forebay.wire.amqp091.properties import encode_properties
from forebay.wire.mqtt.properties import encode_neutral
from tests.conformance.mqtt.v5.flows import subscribed, take
from tests.mqtt_rig import MqttRig


@pytest.fixture
def vhost(tmp_path: Path) -> Iterator[Vhost]:
    rig = MqttRig(tmp_path)
    yield rig.vhost
    rig.close()


def declare(vhost: Vhost, name: bytes, kind: bytes = b"fanout", **arguments: object) -> None:
    given: dict[str, object] = {key.replace("_", "-"): value for key, value in arguments.items()}
    vhost.catalog.declare_exchange(name, kind, True, False, name.startswith(b"internal"), given)


def queue(vhost: Vhost, name: bytes, exchange: bytes, key: bytes = b"", **arguments: object) -> None:
    if name not in vhost.catalog.queues:
        vhost.catalog.declare_queue(name, True, False, False, {}, 1)
    vhost.catalog.bind(name, exchange, key, arguments)


def names(route: Route) -> list[bytes]:
    return sorted(each.name for each in route.queues)


def led(vhost: Vhost, exchange: bytes, key: bytes = b"k", **headers: object) -> list[bytes]:
    """The queues that a message gets to."""
    route = vhost.router.route(exchange, key)
    if route.headers_exchange is not None:
        route = vhost.router.resolve(route, AMQP091, with_headers(headers))
    return names(route)


def with_headers(headers: dict[str, object]) -> bytes:
    content = Properties()
    content.headers = list(headers.items())
    return encode_properties(content)


def subscribe(vhost: Vhost, filter: bytes) -> None:
    client = vhost.sessions.attach(b"c-" + filter, 1, True, 0, None)
    vhost.clients.subscribe(client, Subscription(client, filter, 1, 0))


# ---- bindings between exchanges


def test_a_queue_gets_a_message_once_however_many_ways_lead_to_it(vhost: Vhost) -> None:
    for name in (b"a", b"b", b"c", b"d"):
        declare(vhost, name)
    for source, destination in ((b"a", b"b"), (b"a", b"c"), (b"b", b"d"), (b"c", b"d")):
        vhost.catalog.bind_exchange(destination, source, b"", {})
    queue(vhost, b"q", b"d")
    queue(vhost, b"q", b"b")
    queue(vhost, b"r", b"c")
    assert led(vhost, b"a") == [b"q", b"r"]
    assert led(vhost, b"d") == [b"q"]


def test_each_exchange_on_the_way_looks_at_the_key(vhost: Vhost) -> None:
    declare(vhost, b"direct", b"direct")
    declare(vhost, b"topic", b"topic")
    vhost.catalog.bind_exchange(b"topic", b"direct", b"eu.paris", {})
    vhost.catalog.bind_exchange(b"topic", b"direct", b"us.boston", {})
    queue(vhost, b"q", b"topic", b"eu.*")
    assert led(vhost, b"direct", b"eu.paris") == [b"q"]
    assert led(vhost, b"direct", b"us.boston") == []
    assert led(vhost, b"direct", b"eu.rome") == []


def test_cycles_end(vhost: Vhost) -> None:
    for name in (b"a", b"b", b"c"):
        declare(vhost, name)
        queue(vhost, b"q" + name, name)
    for source, destination in ((b"a", b"b"), (b"b", b"c"), (b"c", b"a"), (b"a", b"a")):
        vhost.catalog.bind_exchange(destination, source, b"", {})
    assert led(vhost, b"a") == led(vhost, b"c") == [b"qa", b"qb", b"qc"]
    vhost.catalog.delete_exchange(b"b", False)
    assert led(vhost, b"a") == [b"qa"]


def test_internal_exchanges_are_reached_by_bindings_only(vhost: Vhost) -> None:
    declare(vhost, b"internal")
    declare(vhost, b"open")
    vhost.catalog.bind_exchange(b"internal", b"open", b"", {})
    queue(vhost, b"q", b"internal")
    assert led(vhost, b"open") == [b"q"]
    with pytest.raises(RequestError, match="cannot publish to internal exchange 'internal' in vhost '/'") as caught:
        vhost.router.route(b"internal", b"k")
    assert caught.value.reason == REFUSED


def test_an_auto_delete_exchange_goes_with_the_exchange_that_it_led_to_and_so_on(vhost: Vhost) -> None:
    for name in (b"a", b"b", b"c"):
        vhost.catalog.declare_exchange(name, b"fanout", True, True, False, {})
    declare(vhost, b"d")
    for source, destination in ((b"a", b"b"), (b"b", b"c"), (b"c", b"d")):
        vhost.catalog.bind_exchange(destination, source, b"", {})
    vhost.catalog.delete_exchange(b"d", False)
    assert not {b"a", b"b", b"c", b"d"} & set(vhost.catalog.bindings.exchanges)


def test_an_auto_delete_exchange_goes_with_its_last_binding_only(vhost: Vhost) -> None:
    vhost.catalog.declare_exchange(b"a", b"fanout", True, True, False, {})
    declare(vhost, b"b")
    vhost.catalog.bind_exchange(b"b", b"a", b"", {})
    queue(vhost, b"q", b"a")
    vhost.catalog.unbind_exchange(b"b", b"a", b"", {})
    assert b"a" in vhost.catalog.bindings.exchanges
    vhost.upkeep.delete_queue(b"q", False, False)
    assert b"a" not in vhost.catalog.bindings.exchanges


@pytest.mark.parametrize(("destination", "source"), [(b"", b"a"), (b"a", b"")])
def test_the_default_exchange_is_bound_to_nothing(vhost: Vhost, destination: bytes, source: bytes) -> None:
    declare(vhost, b"a")
    for change in (vhost.catalog.bind_exchange, vhost.catalog.unbind_exchange):
        with pytest.raises(RequestError, match="operation not permitted on the default exchange") as caught:
            change(destination, source, b"", {})
        assert caught.value.reason == REFUSED


def test_both_ends_of_a_binding_must_be_there(vhost: Vhost) -> None:
    declare(vhost, b"a")
    for destination, source in ((b"none", b"a"), (b"a", b"none"), (b"other", b"none")):
        with pytest.raises(RequestError, match="no exchange 'none' in vhost '/'") as caught:
            vhost.catalog.bind_exchange(destination, source, b"", {})
        assert caught.value.reason == NOT_FOUND
        vhost.catalog.unbind_exchange(destination, source, b"", {})


# ---- alternates


def test_what_leads_nowhere_goes_to_the_alternate(vhost: Vhost) -> None:
    declare(vhost, b"main", b"direct", alternate_exchange="rest")
    declare(vhost, b"rest", b"direct", alternate_exchange="last")
    declare(vhost, b"last")
    queue(vhost, b"a", b"main", b"a")
    queue(vhost, b"b", b"rest", b"b")
    queue(vhost, b"c", b"last")
    assert led(vhost, b"main", b"a") == [b"a"]
    assert led(vhost, b"main", b"b") == [b"b"]
    assert led(vhost, b"main", b"c") == [b"c"]


def test_an_exchange_that_leads_to_another_has_led_somewhere(vhost: Vhost) -> None:
    """As in RabbitMQ: the alternate of the second exchange is asked, not that of the first."""
    declare(vhost, b"main", alternate_exchange="rest")
    declare(vhost, b"next", b"direct")
    declare(vhost, b"rest")
    queue(vhost, b"q", b"rest")
    vhost.catalog.bind_exchange(b"next", b"main", b"", {})
    assert led(vhost, b"main") == []


def test_alternates_in_a_circle_end_and_one_that_is_missing_is_none(vhost: Vhost) -> None:
    declare(vhost, b"a", alternate_exchange="b")
    assert led(vhost, b"a") == []
    declare(vhost, b"b", alternate_exchange="a")
    assert led(vhost, b"a") == []
    queue(vhost, b"q", b"b")
    assert led(vhost, b"a") == [b"q"]
    vhost.catalog.delete_exchange(b"b", False)
    assert led(vhost, b"a") == []


def test_the_default_exchange_may_be_the_alternate(vhost: Vhost) -> None:
    declare(vhost, b"a", alternate_exchange="")
    queue(vhost, b"q", b"amq.direct", b"unused")
    assert led(vhost, b"a", b"q") == [b"q"]
    assert led(vhost, b"a", b"none") == []


def test_an_internal_exchange_may_be_the_alternate(vhost: Vhost) -> None:
    declare(vhost, b"a", alternate_exchange="internal")
    declare(vhost, b"internal")
    queue(vhost, b"q", b"internal")
    assert led(vhost, b"a") == [b"q"]


def test_an_alternate_that_goes_by_the_headers_sees_them(vhost: Vhost) -> None:
    declare(vhost, b"a", b"direct", alternate_exchange="h")
    declare(vhost, b"h", b"headers")
    queue(vhost, b"found", b"a", b"k")
    queue(vhost, b"red", b"h", colour="red")
    assert vhost.router.route(b"a", b"k").headers_exchange is None
    assert led(vhost, b"a", b"k", colour="red") == [b"found"]
    assert led(vhost, b"a", b"other", colour="red") == [b"red"]
    assert led(vhost, b"a", b"other", colour="blue") == []


# ---- content


def test_a_headers_exchange_behind_others_sees_the_headers(vhost: Vhost) -> None:
    declare(vhost, b"a")
    declare(vhost, b"h", b"headers")
    vhost.catalog.bind_exchange(b"h", b"a", b"", {})
    queue(vhost, b"red", b"h", colour="red")
    queue(vhost, b"all", b"a")
    assert led(vhost, b"a", colour="red") == [b"all", b"red"]
    assert led(vhost, b"a", colour="blue") == [b"all"]


def test_a_hash_exchange_behind_others_picks_by_its_property(vhost: Vhost) -> None:
    declare(vhost, b"a")
    declare(vhost, b"hash", b"x-consistent-hash", hash_property="message_id")
    vhost.catalog.bind_exchange(b"hash", b"a", b"", {})
    for name in (b"q1", b"q2", b"q3"):
        queue(vhost, name, b"hash", b"1")
    seen = set()
    for number in range(30):
        content = Properties()
        content.message_id = f"m{number}"
        route = vhost.router.route(b"a", b"k%d" % number)
        (where,) = names(vhost.router.resolve(route, AMQP091, encode_properties(content)))
        assert names(vhost.router.resolve(vhost.router.route(b"a", b"other"), AMQP091, encode_properties(content))) == [
            where
        ]
        seen.add(where)
    assert seen == {b"q1", b"q2", b"q3"}


def test_what_a_content_leads_to_is_remembered_until_the_topology_changes(vhost: Vhost) -> None:
    declare(vhost, b"h", b"headers")
    queue(vhost, b"red", b"h", colour="red")
    properties = with_headers({"colour": "red"})
    first = vhost.router.resolve(vhost.router.route(b"h", b"k"), AMQP091, properties)
    assert vhost.router.resolve(vhost.router.route(b"h", b"k"), AMQP091, properties) is first
    queue(vhost, b"too", b"h", colour="red")
    assert led(vhost, b"h", colour="red") == [b"red", b"too"]


def test_what_is_remembered_has_limits(vhost: Vhost) -> None:
    declare(vhost, b"h", b"headers")
    route = vhost.router.route(b"h", b"k")
    before = len(vhost.router.routes.routes)
    vhost.router.resolve(route, AMQP091, with_headers({"long": "x" * REMEMBERED_OCTETS_MAX}))
    assert len(vhost.router.routes.routes) == before
    vhost.router.routes.routes_max = before + 100
    for number in range(101):
        vhost.router.resolve(route, AMQP091, with_headers({"number": number}))
    assert len(vhost.router.routes.routes) == 1


# ---- several routing keys


def test_several_keys_lead_to_all_their_queues_each_once(vhost: Vhost) -> None:
    declare(vhost, b"x", b"direct")
    for key in (b"a", b"b", b"c"):
        queue(vhost, b"q" + key, b"x", key)
        queue(vhost, b"all", b"x", key)
    route = vhost.router.route_all(b"x", [b"a", b"c", b"none"], AMQP091, b"\0\0")
    assert names(route) == [b"all", b"qa", b"qc"]
    assert (route.exchange, route.routing_key) == (b"x", b"a")
    assert vhost.router.route_all(b"x", [b"a", b"c", b"none"], AMQP091, b"\0\0") is route
    assert names(vhost.router.route_all(b"x", [b"a", b"b"], AMQP091, b"\0\0")) == [b"all", b"qa", b"qb"]


def test_several_keys_of_the_default_exchange_name_queues(vhost: Vhost) -> None:
    queue(vhost, b"a", b"amq.direct")
    queue(vhost, b"b", b"amq.direct")
    assert names(vhost.router.route_all(b"", [b"a", b"b", b"$queue/a/x", b"none"], AMQP091, b"\0\0")) == [b"a", b"b"]


def test_the_alternate_takes_what_no_key_leads_anywhere(vhost: Vhost) -> None:
    declare(vhost, b"x", b"direct", alternate_exchange="rest")
    declare(vhost, b"rest")
    queue(vhost, b"a", b"x", b"a")
    queue(vhost, b"rest", b"rest")
    assert names(vhost.router.route_all(b"x", [b"none", b"a"], AMQP091, b"\0\0")) == [b"a"]
    assert names(vhost.router.route_all(b"x", [b"none", b"nor"], AMQP091, b"\0\0")) == [b"rest"]


def test_a_hash_exchange_goes_by_the_first_key(vhost: Vhost) -> None:
    declare(vhost, b"hash", b"x-consistent-hash")
    for name in (b"q1", b"q2", b"q3"):
        queue(vhost, name, b"hash", b"1")
    for number in range(20):
        key = b"%d" % number
        assert names(vhost.router.route_all(b"hash", [key, b"x", b"y"], AMQP091, b"\0\0")) == led(vhost, b"hash", key)


def test_several_keys_and_headers_together(vhost: Vhost) -> None:
    declare(vhost, b"x", b"topic")
    declare(vhost, b"h", b"headers")
    vhost.catalog.bind_exchange(b"h", b"x", b"copy.#", {})
    queue(vhost, b"red", b"h", colour="red")
    queue(vhost, b"q", b"x", b"a")
    assert names(vhost.router.route_all(b"x", [b"a", b"copy.1"], AMQP091, with_headers({"colour": "red"}))) == [
        b"q",
        b"red",
    ]
    assert names(vhost.router.route_all(b"x", [b"a"], AMQP091, with_headers({"colour": "red"}))) == [b"q"]


# ---- MQTT


def test_subscribers_are_reached_through_other_exchanges(vhost: Vhost) -> None:
    declare(vhost, b"x")
    vhost.catalog.bind_exchange(b"amq.topic", b"x", b"", {})
    subscribe(vhost, b"a/+")
    reached = vhost.router.route(b"x", b"a.b").audience
    assert reached is not None
    assert [target.client.client_id for target in reached.direct] == [b"c-a/+"]
    assert vhost.router.route(b"x", b"b.b").audience is None


def test_a_client_gets_one_copy_of_what_has_several_keys_under_the_first_that_reaches_it(vhost: Vhost) -> None:
    subscribe(vhost, b"a/+")
    subscribe(vhost, b"b/+")
    subscribe(vhost, b"c/+")
    subscribe(vhost, b"+/3")
    route = vhost.router.route_all(b"amq.topic", [b"a.1", b"a.2", b"b.3", b"c.3"], AMQP091, b"\0\0")
    assert reached(route) == {b"a.1": [b"c-a/+"], b"b.3": [b"c-b/+", b"c-+/3"], b"c.3": [b"c-c/+"]}
    assert route.durable == 0


def test_a_client_with_several_subscriptions_gets_one_copy(vhost: Vhost) -> None:
    client = vhost.sessions.attach(b"c", 1, False, 600, None)
    for filter in (b"a", b"b"):
        vhost.clients.subscribe(client, Subscription(client, filter, 1, 0))
    route = vhost.router.route_all(b"amq.topic", [b"b", b"a"], AMQP091, b"\0\0")
    assert (route.copies, route.durable) == ([], 1)
    assert vhost.router.route_all(b"amq.topic", [b"none", b"b", b"a"], AMQP091, b"\0\0").durable == 1


def reached(route: Route) -> dict[bytes, list[bytes]]:
    """Clients that get a message, under which key."""
    audiences = {copy.key: copy.audience for copy in route.copies}
    if route.audience is not None:
        audiences[route.routing_key] = route.audience
    return {key: [target.client.client_id for target in audience.direct] for key, audience in audiences.items()}


def test_subscribers_of_further_keys_get_the_message_also_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    for name, filter in (("one", "a/+"), ("two", "b/+"), ("both", "+/1")):
        subscribed(rig.durable(name), (filter, 1)).close()
    route = rig.vhost.router.route_all(b"amq.topic", [b"a.1", b"b.1"], AMQP091, b"\0\0")
    assert len(route.copies) == 1
    assert rig.vhost.publishing.publish(route, AMQP091, b"\0\0", b"x").status == ACCEPTED
    rig.turn()
    rig.crash()
    for name, topic in (("one", "a/1"), ("two", "b/1"), ("both", "a/1")):
        client = rig.durable(name, present=True)
        found = take(client)
        assert (found.topic, found.body) == (topic, b"x")
        client.quiet()
    rig.close()


def test_only_the_broker_publishes_below_sys_whatever_leads_there(vhost: Vhost) -> None:
    declare(vhost, b"x")
    vhost.catalog.bind_exchange(b"amq.topic", b"x", b"", {})
    subscribe(vhost, b"$SYS/#")
    assert vhost.router.route(b"x", b"$SYS.uptime").audience is None
    for keys in ([b"$SYS.uptime"], [b"a", b"$SYS.uptime"]):
        with pytest.raises(RequestError, match=r"only the broker publishes below \$SYS"):
            vhost.router.route_all(b"amq.topic", keys, AMQP091, b"\0\0")
    assert vhost.router.route_topic(b"$SYS/uptime", None).audience is not None


def test_a_topic_leads_through_exchanges_behind_amq_topic(vhost: Vhost) -> None:
    declare(vhost, b"x")
    declare(vhost, b"h", b"headers")
    vhost.catalog.bind_exchange(b"x", b"amq.topic", b"a.*", {})
    vhost.catalog.bind_exchange(b"h", b"amq.topic", b"h.*", {})
    queue(vhost, b"q", b"x")
    queue(vhost, b"red", b"h", colour="red")
    assert names(vhost.router.route_topic(b"a/b", None)) == [b"q"]
    route = vhost.router.route_topic(b"h/b", None)
    content = Properties()
    content.headers = [("colour", "red")]
    assert route.headers_exchange is not None
    assert names(vhost.router.resolve(route, MQTT | 16, encode_neutral(content))) == [b"red"]
    assert names(vhost.router.resolve(route, MQTT, b"")) == []


def test_amq_topic_with_subscribers_needs_no_alternate(vhost: Vhost) -> None:
    declare(vhost, b"rest")
    queue(vhost, b"q", b"rest")
    vhost.catalog.topics.alternate = b"rest"
    subscribe(vhost, b"a")
    assert names(vhost.router.route_topic(b"a", None)) == []
    assert names(vhost.router.route_topic(b"b", None)) == [b"q"]
    assert names(vhost.router.route(b"amq.topic", b"b")) == [b"q"]
