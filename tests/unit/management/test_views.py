"""Views as administrators see them: what streams and views say of each other, and who keeps a log that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.admin.metrics.objects import octets_kept_alone
from forebay.broker.quota import Quota
from forebay.core.errors import OptionError, RequestError
from forebay.core.options import make_options
from forebay.core.units import US_PER_S
from forebay.management.definitions.configured import configured_arguments, declare_configured
from forebay.management.definitions.exported import queue_entry, queues_of
from forebay.management.definitions.imported import ImportPlan
from forebay.management.explain.explain import absence
from forebay.management.explain.places import subject_at
from forebay.management.held_logs import HeldLogs
from forebay.management.operations.messages import shown_at
from forebay.management.operations.queues import pin_fields, queue_fields, view_fields, views_left
from forebay.queue.totals import QueueTotals
from forebay.queue.work.work_group import WorkGroup
from tests.vhosts import OneVhost

RECORDS = 10
Fields = dict[str, object]


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    """A stream of ten records, with the views `risk` and `billing`."""
    made = OneVhost(tmp_path)
    made.declare(b"orders", x_queue_type="stream")
    made.declare(b"risk", x_source="orders")
    made.declare(b"billing", x_source="orders")
    for number in range(RECORDS):
        made.publish(b"", b"orders", b"%d" % number)
        made.settle()
    return made


def settle(broker: OneVhost, queue: bytes, count: int) -> None:
    """Have a consumer settle the first records of a queue."""
    broker.held(queue)
    group = broker.vhost.catalog.queue(queue).find_group(b"")
    assert isinstance(group, WorkGroup)
    for offset in range(count):
        lease = group.leases.find(offset)
        assert lease is not None
        broker.vhost.settling.ack(lease, offset, 1)
    broker.settle()


def pins(broker: OneVhost, queue: bytes) -> Fields:
    found = pin_fields(broker.vhost.catalog.queue(queue))
    assert found is not None
    return {name: found.get(name) for name in ("queue", "group", "kind", "offset", "messages", "frees_messages")}


def test_a_stream_names_its_views_and_a_view_its_stream(broker: OneVhost) -> None:
    vhost = broker.vhost
    assert view_fields(vhost, vhost.catalog.queue(b"orders")) == {"views": ["risk", "billing"]}
    assert view_fields(vhost, vhost.catalog.queue(b"risk")) == {
        "source": {"stream": "orders", "deleted": False, "kept_messages": 0, "kept_octets": 0}
    }
    broker.declare(b"plain")
    assert view_fields(vhost, vhost.catalog.queue(b"plain")) == {}
    vhost.upkeep.delete_queue(b"orders", False, False)
    source = view_fields(vhost, vhost.catalog.queue(b"risk"))["source"]
    assert (source["stream"], source["deleted"], source["kept_messages"]) == ("orders", True, 0)
    vhost.upkeep.delete_queue(b"billing", False, False)
    assert view_fields(vhost, vhost.catalog.queue(b"risk"))["source"]["kept_messages"] == RECORDS


def test_octets_of_a_log_count_once(broker: OneVhost) -> None:
    catalog = broker.vhost.catalog
    queues = [catalog.queue(name) for name in (b"orders", b"risk", b"billing")]
    octets = int(catalog.queue(b"orders").log.octets)
    assert [queue_fields(queue)["octets"] for queue in queues] == [octets, 0, 0]
    totals = QueueTotals()
    totals.add(queues)
    assert (totals.octets, totals.ready) == (octets, 3 * RECORDS)
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    assert [queue_fields(queue)["octets"] for queue in queues[1:]] == [octets, 0]


def test_an_order_that_takes_from_the_stream_says_what_its_views_keep(broker: OneVhost) -> None:
    settle(broker, b"risk", 4)
    catalog = broker.vhost.catalog
    broker.vhost.upkeep.purge(b"orders")
    broker.settle()
    assert views_left(catalog.views_of(catalog.queue(b"orders"))) == [
        {"queue": "risk", "messages": 6, "offset": 4},
        {"queue": "billing", "messages": 10, "offset": 0},
    ]
    assert views_left(catalog.views_of(catalog.queue(b"risk"))) == []


def test_who_keeps_the_log_is_named_with_its_queue(broker: OneVhost) -> None:
    settle(broker, b"risk", 4)
    broker.vhost.upkeep.truncate(b"orders", 8)
    broker.settle()
    kept_by_billing = {"group": "", "kind": "queue", "offset": 0, "messages": 10, "frees_messages": 4}
    assert pins(broker, b"orders") == {"queue": "billing", **kept_by_billing}
    assert pins(broker, b"billing") == {"queue": None, **kept_by_billing}
    settle(broker, b"billing", 10)
    kept_by_risk = {"group": "", "kind": "work", "offset": 4, "messages": 6, "frees_messages": 4}
    assert pins(broker, b"orders") == {"queue": "risk", **kept_by_risk}
    assert pins(broker, b"risk") == {"queue": None, **kept_by_risk}


def test_a_publisher_over_the_share_of_a_stream_is_told_the_view(broker: OneVhost) -> None:
    quota = Quota(broker.vhosts, broker.options)
    stream = broker.vhost.catalog.queue(b"orders")
    assert quota.own_reason(stream) == "queue 'orders' is over its share of disk"
    settle(broker, b"risk", 10)
    broker.vhost.upkeep.truncate(b"orders", 7)
    broker.settle()
    assert quota.own_reason(stream) == "queue 'orders' is over its share of disk: view 'billing' alone keeps 7 messages"


def test_a_view_that_keeps_the_log_alone_is_named_until_it_does_not(broker: OneVhost) -> None:
    events, held_logs, now_us = broker.vhost.events, HeldLogs(broker.vhosts), 0

    def told() -> list[tuple[str, Fields]]:
        nonlocal now_us
        events.wanted |= {"view.keeps_log", "view.let_log_go"}
        for _ in range(12):
            now_us += US_PER_S
            held_logs.look(now_us)
        events.wanted.clear()
        return [(each.type, each.fields) for each in events.take()]

    settle(broker, b"risk", 4)
    assert told() == []
    broker.vhost.upkeep.truncate(b"orders", 8)
    broker.settle()
    billing = broker.vhost.catalog.queue(b"billing")
    octets = octets_kept_alone(billing)
    assert (octets > 0, octets_kept_alone(broker.vhost.catalog.queue(b"risk"))) == (True, 0)
    source = view_fields(broker.vhost, billing)["source"]
    assert (source["kept_messages"], source["kept_octets"]) == (4, octets)
    assert told() == [("view.keeps_log", {"queue": "orders", "view": "billing", "messages": 4, "octets": octets})]
    assert told() == []
    broker.vhost.upkeep.purge(b"billing")
    broker.settle()
    assert [name for name, _ in told()] == ["view.let_log_go", "view.keeps_log"]
    assert [held.view.name for held in held_logs.named.values()] == [b"risk"]


def test_a_record_below_the_start_of_a_view_is_explained(broker: OneVhost) -> None:
    broker.declare(b"late", x_source="orders", x_recovery_point="now")
    reason = absence(broker.vhost, broker.vhost.catalog.queue(b"late"), 3)
    assert (reason.code, "the view starts at offset 10" in reason.text) == ("gone", True)


def test_what_a_filter_leaves_out_is_explained_and_not_shown(broker: OneVhost) -> None:
    broker.declare(b"some", x_source="orders", x_filter="routing_key = 'other'")
    broker.settle()
    queue = broker.vhost.catalog.queue(b"some")
    assert subject_at(broker.vhost, queue, 3) is None
    reason = absence(broker.vhost, queue, 3)
    assert (reason.code, queue.ready()) == ("gone", 0)
    broker.publish(b"", b"orders", b"x")
    broker.publish(b"", b"orders", b"x")
    broker.settle()
    with pytest.raises(RequestError, match="its filter left it out"):
        shown_at(broker.vhost, queue, 3, 100)


def test_an_event_of_a_deletion_names_the_views(broker: OneVhost) -> None:
    broker.vhost.events.wanted.add("queue.deleted")
    broker.vhost.upkeep.delete_queue(b"orders", False, False)
    told = [each.fields for each in broker.vhost.events.take() if each.type == "queue.deleted"]
    assert told == [{"queue": b"orders", "views": ["risk", "billing"]}]


# ---- definitions


def entries(**view: object) -> Fields:
    return {
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": "view", "vhost": "/", "durable": True, "arguments": {"x-source": "trades", **view}},
            {"name": "trades", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "stream"}},
        ],
    }


def planned(broker: OneVhost, document: Fields) -> ImportPlan:
    plan = ImportPlan(broker.vhosts, document)
    for step in plan.steps():
        step.do()
    return plan


def test_definitions_make_a_view_after_its_stream(broker: OneVhost) -> None:
    plan = planned(broker, entries(**{"x-recovery-point": "now"}))
    assert (plan.faults, plan.left_out) == ([], [])
    catalog = broker.vhost.catalog
    assert catalog.queue(b"view").source is catalog.queue(b"trades").source


@pytest.mark.parametrize(
    ("view", "part"),
    [
        ({"x-source": "nowhere"}, "is no queue of the vhost or the file"),
        ({"x-source": "risk"}, "is no stream"),
        ({"x-recovery-point": "soon"}, "none of epoch"),
        ({"x-overflow": "reject-publish"}, "x-overflow"),
        ({"x-filter": "/n >"}, "x-filter"),
    ],
)
def test_definitions_leave_out_a_view_that_cannot_be(broker: OneVhost, view: Fields, part: str) -> None:
    plan = planned(broker, entries(**view))
    assert [each.text() for each in plan.left_out if part in each.text()], plan.left_out
    assert b"view" not in broker.vhost.catalog.queues


def test_definitions_bind_nothing_to_a_view(broker: OneVhost) -> None:
    document: Fields = {
        "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "risk", "routing_key": "#", "arguments": {}}]
    }
    plan = planned(broker, document)
    assert "is a view: bind 'orders'" in " ".join(plan.faults + [each.text() for each in plan.left_out])


def test_an_exported_view_is_imported_as_it_was(broker: OneVhost, tmp_path: Path) -> None:
    queues = [queue_entry(broker.vhost, queue) for queue in queues_of(broker.vhost)]
    other = OneVhost(tmp_path / "other")
    plan = planned(other, {"queues": [{"vhost": "/", **entry} for entry in queues]})
    assert (plan.faults, plan.left_out) == ([], [])
    assert other.vhost.catalog.queue(b"risk").spec.arguments == {"x-source": "orders"}


# ---- the configuration


def test_an_entry_of_the_configuration_is_a_view() -> None:
    entry = {"name": "v", "source": "orders", "recovery_point": "now", "filter": "/n > 5", "publish_target": "orders"}
    options = make_options({"queues": [entry]})
    assert configured_arguments(options.queues[0], "queues[0]", options.cluster) == {
        "x-queue-type": "classic",
        "x-source": "orders",
        "x-recovery-point": "now",
        "x-filter": "/n > 5",
        "x-publish-target": "orders",
    }


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({"source": "orders", "type": "stream"}, "queues[0].source: a view is no stream"),
        ({"source": "orders", "topics": ["a/#"]}, "queues[0].topics cannot be in force on a view"),
        ({"source": "orders", "limits": {"max_depth": 5}}, "queues[0].limits.max_depth cannot be in force on a view"),
        ({"source": "orders", "recovery_point": "soon"}, "'soon' is none of epoch"),
        ({"source": "orders", "publish_target": "others"}, "'others' is not its source"),
        ({"recovery_point": "now"}, "only a view has it"),
        ({"filter": "/n > 5"}, "only a view has it"),
    ],
)
def test_an_entry_that_cannot_be_is_named(entry: Fields, part: str) -> None:
    options = make_options({"queues": [{"name": "v", **entry}]})
    with pytest.raises(OptionError) as caught:
        configured_arguments(options.queues[0], "queues[0]", options.cluster)
    assert part in str(caught.value)


def test_configured_views_stand_over_configured_streams_whatever_their_order(broker: OneVhost) -> None:
    view = {"name": "view", "source": "trades"}
    options = make_options({"queues": [view, {"name": "trades", "type": "stream"}]})
    for _ in range(2):
        declare_configured(broker.vhosts, options)
    catalog = broker.vhost.catalog
    assert catalog.queue(b"view").source is catalog.queue(b"trades").source
    for changed in ({"name": "view"}, {"name": "view", "source": "orders"}, {**view, "recovery_point": "now"}):
        with pytest.raises(OptionError, match="cannot be changed"):
            declare_configured(broker.vhosts, make_options({"queues": [changed, {"name": "trades", "type": "stream"}]}))
    with pytest.raises(OptionError, match="which is no stream"):
        declare_configured(broker.vhosts, make_options({"queues": [{"name": "other", "source": "none"}]}))
