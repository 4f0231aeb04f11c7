"""Nothing stays behind: of connections at once, of everything else when it was deleted and its time is over."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Final, cast

from forebay.broker.audit import Origin
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.node.broker import NodeBroker
from tests.fuzz.held import Held

ADMINISTRATOR: Final = Origin(Principal("guest"), "127.0.0.1", "test")
PAGE: Final = 1000
PAGES_MAX: Final = 100
AGES_S: Final = (1, 700, 4_000, 100_000, 40 * 86_400)  # everything that the broker remembers for a time is over then
# Lists of what somebody has made, what its items are called there, and what ends one by which argument.
LISTS: Final = (
    ("trace.list", "name", "trace.stop", "name"),
    ("session.list", "client_id", "session.delete", "client_id"),
    ("delayed.list", "number", "delayed.cancel", "name"),
    ("policy.list", "policy", "policy.clear", "policy"),
    ("operator_policy.list", "policy", "operator_policy.clear", "policy"),
)
CONTAINERS: Final = (dict, list, set, deque)
CLOSED: Final = (type, ModuleType, FunctionType, BuiltinFunctionType)  # what they know is the program, not the state


def of_connections(broker: NodeBroker) -> dict[str, int]:
    """Everything that there is for connections alone; all of it is 0 when the last is gone."""
    pressure, rates, flow = broker.pressure, broker.rates, broker.flow
    counts = {
        "connections": len(broker.connections),
        "open": len(broker.open),
        "dirty": len(broker.dirty),
        "waiting": len(broker.waiting),
        "farewells": len(broker.endings.farewells),
        "places": len(broker.auth.places),
        "proofs": len(broker.auth.news.proofs),
        "joinings": len(broker.joins.waiting),
        "held": sum(len(entries) for entries in flow.held),
        "unsent": len(pressure.buffers.waiting),
        "charged": len(rates.charged),
        "reading": len(flow.changed),
        "watches": len(broker.vhosts.shared.next_turn.watches),
    }
    for vhost in broker.vhosts.by_name.values():
        name = vhost.name.decode("utf-8", "replace")
        counts |= {
            f"consumers of {name}": len(vhost.consumers.by_session),
            f"getters of {name}": len(vhost.consumers.getters),
            f"exclusive queues of {name}": len(vhost.catalog.owned),
            f"paused of {name}": len(vhost.consumers.paused),
            f"entered in {name}": len(vhost.entered),
            f"connected sessions of {name}": len(vhost.sessions.connected),
            f"replies in {name}": len(vhost.replies.by_name) + len(vhost.replies.by_consumer),
            f"consumers in groups of {name}": in_groups(vhost),
        }
    return {what: count for what, count in counts.items() if count}


def in_groups(vhost: Vhost) -> int:
    """Consumers that some queue still has."""
    return sum(len(group.consumers) for queue in vhost.catalog.queues.values() for group in queue.groups.values())


# ---- everything durable


def clear(rig: Held) -> None:
    """Delete everything that somebody has made, and let everything pass that time ends."""
    broker = rig.broker
    for vhost in list(broker.vhosts.by_name.values()):
        name = vhost.name.decode()
        clear_vhost(rig, vhost)
        if name != "/":
            rig.broker.control.perform(ADMINISTRATOR, "vhost.set", {"vhost": name, "protected": False})
            delete(rig, "vhost.delete", vhost=name)
    for user in listed(rig, "user.list"):
        delete(rig, "user.delete", user=user["name"])
        delete(rig, "user.limits", user=user["name"], limits={"connections_max": -1, "channels_max": -1})
    for what in ("permission", "topic_permission"):
        for item in listed(rig, f"{what}.list"):
            delete(rig, f"{what}.clear", vhost=item["vhost"], user=item["user"])
    rig.settle()
    for seconds in AGES_S:
        rig.clock.us += seconds * 1_000_000
        rig.wait(1.1)
    clear_vhost(rig, broker.vhosts.by_name[b"/"])  # of what came by time, as wills do
    rig.wait(1.1)
    forget_memos(broker.vhosts.by_name[b"/"])
    broker.store.logs.cache.compact()


def clear_vhost(rig: Held, vhost: Vhost) -> None:
    name = vhost.name.decode()
    clear_topology(rig, vhost)
    for what, field, end, argument in LISTS:
        for item in listed(rig, what, vhost=name):
            delete(rig, end, vhost=name, **{argument: str(item[field])})
        rig.settle()
    for place in list(vhost.retained.places.values()):  # among them those below $, which no list of all has
        delete(rig, "retained.delete", vhost=name, topic=place.topic.decode())
    rig.settle()


def clear_topology(rig: Held, vhost: Vhost) -> None:
    """Delete by its octets what has a name of any octets; what the broker has by itself stays."""
    for binding in vhost.catalog.bindings.list_all():
        if binding.destination < 0:  # an exchange, which may stay
            name = vhost.catalog.bindings.by_number[binding.destination].name
            vhost.catalog.unbind_exchange(name, binding.exchange, binding.routing_key, binding.arguments)
    for name in [*vhost.catalog.queues, *vhost.catalog.bindings.exchanges]:
        try:
            vhost.upkeep.delete_queue(name, False, False)
            vhost.catalog.delete_exchange(name, False)
        except RequestError as error:
            rig.said.append(error.text)
    vhost.touch()
    rig.settle()


def forget_memos(vhost: Vhost) -> None:
    """Empty what is remembered only to be quicker, has a limit, and goes when somebody needs the place."""
    vhost.router.routes.clear()
    vhost.consumers.stream_values.spans.clear()
    vhost.staged_rows.known_headers.clear()


def listed(rig: Held, what: str, **given: object) -> Iterator[dict[str, object]]:
    """Every item of a list that comes in pages; what is deleted meanwhile has been listed."""
    items: list[dict[str, object]] = []
    start: object = 0
    for _ in range(PAGES_MAX):
        answer = rig.broker.control.perform(ADMINISTRATOR, what, {**given, "from": start, "limit": PAGE})
        items += cast("list[dict[str, object]]", answer["items"])
        start = answer.get("next")
        if start is None:
            return iter(items)
    raise AssertionError(f"{what} goes on without end")


def delete(rig: Held, operation: str, **given: object) -> None:
    """Things that the broker has by itself stay."""
    try:
        rig.broker.control.perform(ADMINISTRATOR, operation, given)
    except RequestError as error:
        rig.said.append(f"{operation} {given}: {error.text}")


# ---- what there is


def census(rig: Held) -> Counter[str]:
    """How many objects of each class of ours the node leads to, and how much their containers hold."""
    gc.collect()
    broker = rig.broker
    found: Counter[str] = Counter()
    seen = {id(broker), id(rig.disk)}
    level: list[object] = [broker]
    while level:
        for each in level:
            kind = type(each)
            if kind.__module__.startswith("forebay."):
                found[kind.__qualname__] += 1
            elif isinstance(each, CONTAINERS):
                found["entries"] += len(each)
        below: list[object] = []
        for each in gc.get_referents(*level):
            if id(each) not in seen and not isinstance(each, CLOSED):
                seen.add(id(each))
                below.append(each)
        level = below
    return found
