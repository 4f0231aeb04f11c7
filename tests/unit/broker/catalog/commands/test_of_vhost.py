"""Commands: refused as a whole, or written and applied; and read back as they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from forebay.broker.catalog.commands.exchanges import Bind, BindingEnds, DeclareExchange, RemoveExchange, Unbind
from forebay.broker.catalog.commands.of_store import OF_STORE, StopInOrder
from forebay.broker.catalog.commands.of_vhost import TOPOLOGY
from forebay.broker.catalog.commands.policies import ClearPolicy, SetPolicy
from forebay.broker.catalog.commands.queues import (
    AddGroup,
    ChangeQueue,
    CountQueues,
    DeclareQueue,
    KeepTtls,
    KeyQueue,
    MarkCrash,
    MoveGroup,
    PauseGroup,
    PauseQueue,
    RedeliverRecords,
    RemoveGroup,
    RemoveQueue,
)
from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.policies import Policy
from forebay.broker.catalog.topology import Topology
from forebay.core.errors import RequestError, StorageError
from forebay.core.stored.entry_kinds import BROKER, CATALOG
from forebay.directory.command import Command, decoded
from forebay.directory.parameters import ClearGlobal, ClearParameter, ParameterCommand, SetGlobal, SetParameter
from forebay.directory.user_commands import (
    ClearPermission,
    ClearTopicPermission,
    LimitUser,
    PutUser,
    RemoveUser,
    SetPermission,
    SetTopicPermission,
    UserCommand,
)
from forebay.directory.vhost_commands import CountVhosts, RemoveVhost, VhostCommand, set_vhost
from forebay.directory.vhost_settings import VhostSettings
from forebay.log.store import FrameEntry
from forebay.node.fault_policy import stops_broker
from forebay.queue.queue import EPHEMERAL
from tests.vhosts import OneVhost

ENDS = BindingEnds(b"e", b"q", b"k", {"x-match": "any", "n": 1, "raw": b"\xff", "list": [1.5, None]}, False)
EVERY: list[TopologyCommand[Topology]] = [
    DeclareQueue(7, b"q", {"x-max-length": 3}, auto_delete=True, by_address=True, next_group=4, user="maker"),
    DeclareQueue(8, b"$share/g/t", kind=4),
    ChangeQueue(7, {"x-message-ttl": 5}),
    RemoveQueue(7),
    KeyQueue(7),
    KeepTtls(7, [(3, 1000), (9, -1)]),
    MarkCrash(7, 12),
    CountQueues(1 << 40),
    AddGroup(7, 1, b"g", b"n > 1", True, 5, True),
    MoveGroup(7, 1, 12),
    PauseGroup(7, 1, True),
    PauseQueue(7, False),
    RedeliverRecords(7, 1, [(2, 5), (7, 8)], 1_700_000_000_000),
    RemoveGroup(7, 1),
    DeclareExchange(b"e", b"headers", {"alternate-exchange": "f"}, auto_delete=True, internal=True),
    RemoveExchange(b"e"),
    Bind(ENDS),
    Unbind(BindingEnds(b"e", b"f", to_exchange=True)),
    SetPolicy(Policy("p", True, "^q", "queues", {"max-length": 1}, -3)),
    ClearPolicy("p", True),
]
OF_ALL_VHOSTS: list[Command] = [
    set_vhost(3, b"v", VhostSettings().fields()),
    RemoveVhost(3),
    CountVhosts(4),
    StopInOrder(),
    PutUser("u", "$argon2id$", ["management"]),
    RemoveUser("u"),
    LimitUser("u", {"connections_max": 3}),
    SetPermission("u", b"v", "", ".*", "^q"),
    ClearPermission("u", b"v"),
    SetTopicPermission("u", b"v", b"e", "a", "b"),
    ClearTopicPermission("u", b"v", b"e"),
    ClearTopicPermission("u", b"v"),
    SetParameter(b"v", "shovel", "p", {"a": [1, None]}),
    ClearParameter(b"v", "shovel", "p"),
    SetGlobal("p", None),
    ClearGlobal("p"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path)
    yield made
    made.close()


def state(broker: OneVhost) -> list[tuple[int, int, int, bytes]]:
    return [entry.key() for entry in broker.vhosts.checkpoint()]


@pytest.mark.parametrize("command", EVERY, ids=lambda each: type(each).__name__)
def test_a_command_is_read_as_it_was_written(command: TopologyCommand[Topology]) -> None:
    assert decoded(TOPOLOGY, command.encoded()) == command


@pytest.mark.parametrize("command", OF_ALL_VHOSTS, ids=lambda each: type(each).__name__)
def test_a_command_of_no_vhost_is_read_as_it_was_written(command: Command) -> None:
    assert decoded(OF_STORE, command.encoded()) == command


def test_every_command_is_among_these() -> None:
    assert {type(each) for each in EVERY} == set(TopologyCommand.__subclasses__())
    bases = (UserCommand, ParameterCommand, VhostCommand)
    assert {type(each) for each in OF_ALL_VHOSTS} == {StopInOrder} | {
        each for base in bases for each in base.__subclasses__()
    }


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (msgspec.msgpack.encode({"op": "queue-paint", "id": 1}), "'queue-paint'"),
        (msgspec.msgpack.encode({"op": "queue-delete", "id": 1, "colour": "red"}), "'queue-delete': .*`colour`"),
        (msgspec.msgpack.encode({"op": "queue-delete", "id": "one"}), "'queue-delete': Expected `int`, got `str`"),
        (msgspec.msgpack.encode({"op": "queue-delete"}), "'queue-delete': .*`id`"),
        (b"\xc1", "1 octets"),
    ],
)
def test_recovery_names_a_command_that_it_does_not_know(broker: OneVhost, payload: bytes, named: str) -> None:
    with pytest.raises(StorageError, match=f"this forebay does not know: {named}"):
        broker.vhosts.recover([FrameEntry(CATALOG, 0, 0, payload)], 0)


def test_recovery_names_a_command_of_no_vhost_that_it_does_not_know(broker: OneVhost) -> None:
    payload = msgspec.msgpack.encode({"op": "user-paint", "name": "u"})
    with pytest.raises(StorageError, match="this forebay does not know: 'user-paint'"):
        broker.vhosts.recover([FrameEntry(BROKER, 0, 0, payload)], 0)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (DeclareQueue(99, b"there"), "queue 'there' in vhost '/' already"),
        (DeclareQueue(99, b"new", {"x-max-length": "many"}), "x-max-length"),
        (DeclareQueue(99, b"new", {"x-queue-type": "stream"}, durable=False), "non-durable"),
        (DeclareQueue(99, b"$queue/a/b"), "queue name '\\$queue/a/b'"),
        (ChangeQueue(1, {"x-max-length": -1}), "x-max-length"),
        (DeclareExchange(b"new", b"round"), "'round'"),
        (DeclareExchange(b"", b"direct"), "default exchange"),
        (DeclareExchange(b"new", b"x-delayed-message", {"x-delayed-type": "round"}), "x-delayed-type"),
        (RemoveExchange(b""), "default exchange"),
        (Bind(BindingEnds(b"none", b"there")), "no exchange 'none'"),
        (Bind(BindingEnds(b"amq.direct", b"none")), "no queue 'none'"),
        (Bind(BindingEnds(b"amq.direct", b"none", to_exchange=True)), "no exchange 'none'"),
        (Bind(BindingEnds(b"amq.headers", b"there", arguments={"x-match": "some"})), "some"),
        (Bind(BindingEnds(b"amq.topic", b"there", b"." * 500)), "levels"),
        (ClearPolicy("none"), "no policy 'none'"),
    ],
)
def test_a_command_that_cannot_be_changes_nothing(
    broker: OneVhost, command: TopologyCommand[Topology], named: str
) -> None:
    broker.vhost.catalog.add_queue(DeclareQueue(1, b"there"))
    before = state(broker)
    broker.turn()
    written = broker.store.settled_lsn()
    with pytest.raises(RequestError, match=named):
        broker.vhost.catalog.execute(command)
    assert state(broker) == before
    broker.turn()
    assert broker.store.settled_lsn() == written


HALF = "\ud83d"
NO_VALUE = (HALF, {HALF: 1}, [{"a": HALF}], 1 << 64, -(1 << 63) - 1)


@pytest.mark.parametrize("value", NO_VALUE, ids=ascii)
def test_what_the_log_cannot_hold_is_refused_before_anything_changes(broker: OneVhost, value: object) -> None:
    """Whoever let it in: the broker goes on, which an error within a change would have ended."""
    users, parameters, catalog = broker.vhosts.directory.users, broker.vhosts.directory.parameters, broker.vhost.catalog
    users.execute(PutUser("u", "", []))
    broker.turn()
    before, written = state(broker), broker.store.settled_lsn()
    changes: list[Callable[[], None]] = [
        lambda: parameters.execute(SetGlobal("cluster_name", value)),
        lambda: parameters.execute(SetParameter(b"/", "shovel", "p", {"deep": [value]})),
        lambda: catalog.execute(DeclareQueue(9, b"q", {"x-ha-params": value})),
        lambda: catalog.execute(DeclareQueue(9, b"q", {"x-ha-params": value}, durable=False)),
        lambda: catalog.execute(DeclareExchange(b"e", b"fanout", {"x-internal-purpose": value})),
        lambda: catalog.execute(DeclareExchange(b"e", b"fanout", {"x-internal-purpose": value}, durable=False)),
        lambda: catalog.execute(SetPolicy(Policy("p", False, "^q", "queues", {"max-length": value}, 0))),
    ]
    if value == HALF:
        changes += [
            lambda: users.execute(PutUser(HALF)),
            lambda: users.execute(PutUser("u", "", [HALF])),
            lambda: users.execute(SetPermission("u", b"/", HALF, "", "")),
            lambda: users.execute(SetTopicPermission("u", b"/", b"e", HALF, "")),
            lambda: parameters.execute(SetGlobal(HALF, 1)),
            lambda: parameters.execute(SetParameter(b"/", HALF, "p", 1)),
            lambda: broker.vhosts.directory.change_vhosts(
                set_vhost(0, b"/", {**VhostSettings().fields(), "description": HALF})
            ),
            lambda: catalog.execute(SetPolicy(Policy(HALF, False, "^q", "queues", {"max-length": 1}, 0))),
        ]
    for change in changes:
        with pytest.raises(RequestError, match=r"half a character|64 bit") as refused:
            change()
        assert not stops_broker(refused.value)
    assert state(broker) == before
    broker.turn()
    assert broker.store.settled_lsn() == written


def test_what_no_restart_keeps_is_not_written(broker: OneVhost) -> None:
    broker.vhost.catalog.add_queue(DeclareQueue(1, b"kept"))
    broker.turn()
    written = broker.store.settled_lsn()
    for command in (
        DeclareQueue(2, b"transient", durable=False),
        DeclareQueue(3, b"exclusive", exclusive=True, owner=1),
        DeclareQueue(4, b"ephemeral", durable=False, kind=EPHEMERAL),
        DeclareExchange(b"e", b"fanout", durable=False),
        Bind(BindingEnds(b"e", b"kept")),
        Bind(BindingEnds(b"amq.fanout", b"transient")),
        AddGroup(2, 1, b"g", work=True),
        RemoveQueue(2),
        RemoveExchange(b"e"),
    ):
        broker.vhost.catalog.execute(command)
    broker.turn()
    assert broker.store.settled_lsn() == written


def test_what_follows_from_a_command_is_written_beside_it(broker: OneVhost) -> None:
    vhost = broker.vhost.catalog
    for command in (
        DeclareExchange(b"a", b"fanout", auto_delete=True),
        DeclareExchange(b"b", b"fanout", auto_delete=True),
        DeclareQueue(1, b"q"),
        DeclareQueue(2, b"mine", exclusive=True, owner=1),
        Bind(BindingEnds(b"b", b"q")),
        Bind(BindingEnds(b"a", b"b", to_exchange=True)),
        DeclareExchange(b"c", b"fanout", auto_delete=True),
        Bind(BindingEnds(b"c", b"q")),
        Bind(BindingEnds(b"c", b"mine")),
        RemoveQueue(1),
    ):
        vhost.execute(command)
    assert [name for name in (b"a", b"b", b"c") if name in vhost.bindings.exchanges] == [b"c"]
    broker.turn()
    broker.crash()
    # Of what the exclusive queue held, recovery knows nothing: it goes by what was written.
    assert [name for name in (b"a", b"b", b"c") if name in broker.vhost.catalog.bindings.exchanges] == [b"c"]
