"""Durable MQTT sessions against clients that keep their own books, over turns, syncs, checkpoints and crashes.

What is promised is noted by the clients alone: a publish that was answered has to reach every durable session that was
subscribed then, at QoS 2 once; an identifier in flight means the same message until it is released.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.broker.mqtt.client_session import AWAIT_PUBCOMP, PHASE_BITS
from tests.conformance.mqtt.raw import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    Delivery,
    acknowledge,
    connect,
    publish,
    subscribe,
    unsubscribe,
)
from tests.conformance.mqtt.v5.flows import expiry, receive_maximum
from tests.examples import examples
from tests.mqtt_rig import MqttRig, RigClient

NAMES = ["d0", "d1", "d2", "clean"]
TOPICS = ["a", "b"]
FILTERS = ["a", "b", "+"]
SHARED = "$s/s"  # no other filter matches it
SHARE = f"$share/g/{SHARED}"
WINDOW = 3
DUP = 8
UNSUBACK = 0xB0
NAME = st.sampled_from(NAMES)


class Peer:
    """One client identifier, with what a careful client keeps over connections.

    owed      number of a message -> its topic, that has to come to this session
    got       message -> the QoS at which it came first
    unacked   own publishes that are not answered: packet identifier -> (topic, message, QoS)
    unended   own publishes of QoS 2 whose PUBCOMP has not come
    held      QoS 2 deliveries not released yet: identifier -> message
    answers   acknowledgements that the client has not sent yet, with what they leave open
    open      identifiers of deliveries whose PUBACK or PUBCOMP is not sent
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.durable = name != "clean"
        self.raw: RigClient | None = None
        self.connacked = False
        self.lasting = False  # the broker has said that there is a session
        self.window = 0
        self.clean = False  # as asked in a CONNECT that is not answered
        self.next_id = 1
        self.unacked: dict[int, tuple[str, int, int]] = {}
        self.unended: set[int] = set()
        self.forget()

    def forget(self) -> None:
        """The session is a new one."""
        self.filters: dict[str, int] = {}
        self.asked: list[tuple[str, int]] = []  # subscribes and, with -1, unsubscribes that are not answered
        self.owed: dict[int, str] = {}
        self.got: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.answers: list[tuple[int, int]] = []
        self.open: set[int] = set()

    def granted(self, topic: str) -> int:
        """The QoS at which a message must come, -1 where nothing is promised."""
        asked = {name for name, _ in self.asked}
        names = (SHARE,) if topic == SHARED else (topic, "+")
        sure = [qos for name, qos in self.filters.items() if name in names and name not in asked]
        return max(sure, default=-1)


class SessionsMachine(RuleBasedStateMachine):
    """Clients, and a broker that is turned, synced and crashed by hand."""

    options: dict[str, object] = {}
    complete = True  # nothing may be missing: there is no limit

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rig = MqttRig(self.folder, None, **{"mqtt_max_inflight": WINDOW, "mqtt_max_mqueue_len": 0, **self.options})
        self.peers = {name: Peer(name) for name in NAMES}
        self.next_message = 1
        self.since_crash = 1
        self.packets = 0
        self.topics: dict[int, str] = {}
        self.publisher: dict[int, str] = {}
        self.repeated: set[int] = set()
        self.shared_owed: set[int] = set()
        self.shared_got: dict[int, int] = {}  # message -> the QoS at which it came first

    # ---- clients

    @initialize(filters=st.lists(st.sampled_from([*FILTERS, SHARE]), min_size=4, max_size=8), qos=st.integers(1, 2))
    def begin(self, filters: list[str], qos: int) -> None:
        for name in NAMES:
            self.attach(name, False, 65_535, True)
        for number, filter in enumerate(filters):
            name = NAMES[number % len(NAMES)]
            self.subscribe(name, filter, qos if self.peers[name].durable else 1)
        self.go_on(True)

    def go_on(self, prompt: bool) -> None:
        """The broker does at once what it would do some time."""
        if prompt:
            self.rig.turn()
            self.read_all()

    @rule(
        name=NAME,
        clean=st.sampled_from([False, False, False, True]),
        window=st.sampled_from([1, 65_535]),
        prompt=st.booleans(),
    )
    def attach(self, name: str, clean: bool, window: int, prompt: bool) -> None:
        peer = self.peers[name]
        self.drop(peer)
        raw = peer.raw = self.rig.client()
        peer.answers = []
        peer.open = set()
        peer.window = window
        peer.connacked = False
        # Who has asked for a new session insists on it until it has one.
        peer.clean = clean or peer.clean or not peer.durable
        if peer.clean and peer.durable:
            self.shared_owed.clear()  # what had moved to its session ends with that
        block = (expiry(600) if peer.durable else b"") + receive_maximum(window)
        raw.send(connect(name, properties=block, clean=peer.clean))
        self.go_on(prompt)

    @rule(name=NAME)
    def detach(self, name: str) -> None:
        self.drop(self.peers[name])

    def drop(self, peer: Peer) -> None:
        if peer.raw is not None:
            peer.raw.vanish()
            self.read(peer)
            self.lose(peer)

    def lose(self, peer: Peer) -> None:
        """Nobody knows what became of what was not answered."""
        peer.raw = None
        peer.connacked = False
        for name, _ in peer.asked:
            peer.filters.pop(name, None)
        peer.asked = []
        if not peer.durable:
            peer.forget()
            peer.unacked = {}
            peer.unended = set()

    @rule(name=NAME, filter=st.sampled_from(FILTERS), qos=st.integers(0, 2))
    def subscribe(self, name: str, filter: str, qos: int) -> None:
        peer = self.peers[name]
        if peer.raw is not None and peer.connacked:
            peer.raw.send(subscribe(1, (filter, qos)))
            peer.asked.append((filter, qos))

    @rule(name=NAME, qos=st.integers(1, 2))
    def join(self, name: str, qos: int) -> None:
        """Subscribe to the share; what a session that ends was sent at QoS 2 would be nobody's."""
        self.subscribe(name, SHARE, qos if self.peers[name].durable else 1)

    @rule(name=NAME, filter=st.sampled_from(FILTERS))
    def unsubscribe(self, name: str, filter: str) -> None:
        peer = self.peers[name]
        if peer.raw is not None and peer.connacked:
            peer.raw.send(unsubscribe(1, filter))
            for message, topic in list(peer.owed.items()):
                if filter in (topic, "+"):
                    del peer.owed[message]  # it may come, and need not
            peer.asked.append((filter, -1))

    @rule(
        name=NAME,
        topic=st.sampled_from([*TOPICS, SHARED]),
        levels=st.lists(st.integers(0, 2), min_size=1, max_size=4),
        long=st.booleans(),
        prompt=st.booleans(),
    )
    def publish(self, name: str, topic: str, levels: list[int], long: bool, prompt: bool) -> None:
        for qos in levels:
            self.publish_one(self.peers[name], topic, qos, long)
        self.go_on(prompt)

    def publish_one(self, peer: Peer, topic: str, qos: int, long: bool) -> None:
        if peer.raw is None or not peer.connacked or len(peer.unacked) + len(peer.unended) > 5:
            return
        message = self.next_message
        self.next_message += 1
        self.topics[message] = topic
        self.publisher[message] = peer.name
        if qos:
            while peer.next_id in peer.unacked or peer.next_id in peer.unended:
                peer.next_id = peer.next_id % 8 + 1
            peer.unacked[peer.next_id] = (topic, message, qos)
            for other in self.peers.values():
                if other.durable and other.granted(topic) > 0:
                    other.owed[-message] = topic  # owed once it is answered
        self.send(peer, peer.next_id, topic, message, qos, 0, long)

    def send(self, peer: Peer, id: int, topic: str, message: int, qos: int, bits: int, long: bool = False) -> None:
        assert peer.raw is not None
        peer.raw.send(publish(topic, b"%d" % message + b" " * (1500 if long else 0), qos, id, bits=bits))

    @rule(name=NAME, count=st.integers(1, 4), prompt=st.booleans())
    def acknowledge(self, name: str, count: int, prompt: bool) -> None:
        peer = self.peers[name]
        if peer.raw is not None:
            sent, peer.answers = peer.answers[:count], peer.answers[count:]
            peer.open -= {id for kind, id in sent if kind != PUBREC}
            peer.raw.send(*[acknowledge(kind, id) for kind, id in sent])
            self.go_on(prompt)

    # ---- what comes to a client

    def read(self, peer: Peer) -> None:
        raw = peer.raw
        assert raw is not None
        while raw.rest:
            first, rest = raw.packet()
            self.packets += 1
            id = int.from_bytes(rest[:2], "big")
            if first == CONNACK:
                self.on_connack(peer, rest[0] == 1)
            elif first in (SUBACK, UNSUBACK):
                name, qos = peer.asked.pop(0)
                if qos < 0:
                    peer.filters.pop(name, None)
                else:
                    peer.filters[name] = qos
            elif first in (PUBACK, PUBREC):
                self.on_answer(peer, id, first)
            elif first == PUBCOMP:
                peer.unended.discard(id)
            elif first == PUBREL:
                peer.held.pop(id, None)
                peer.open.add(id)
                peer.answers.append((PUBCOMP, id))
            elif first >> 4 == 3:
                self.on_delivery(peer, raw.parsed(first, rest))
            else:
                assert first == 0xE0, hex(first)

    def on_connack(self, peer: Peer, present: bool) -> None:
        peer.connacked = True
        assert present or peer.clean or not peer.lasting, "a session that was promised is not there"
        assert not (present and peer.clean)
        peer.lasting = peer.durable
        peer.clean = False
        if not present:
            peer.forget()
            peer.unended = set()
            peer.unacked = {id: each for id, each in peer.unacked.items() if each[2] == 1}
        for id, (topic, message, qos) in peer.unacked.items():
            self.repeated.add(message)
            self.send(peer, id, topic, message, qos, DUP)
        for id in sorted(peer.unended):
            assert peer.raw is not None
            peer.raw.send(acknowledge(PUBREL, id))

    def on_answer(self, peer: Peer, id: int, kind: int) -> None:
        topic, message, qos = peer.unacked.pop(id)
        assert (kind == PUBREC) == (qos == 2)
        if qos == 2:
            peer.unended.add(id)
            assert peer.raw is not None
            peer.raw.send(acknowledge(PUBREL, id))
        for other in self.peers.values():
            if -message in other.owed:
                del other.owed[-message]
                if other.granted(topic) <= 0:
                    continue
                if topic == SHARED:
                    self.shared_owed.add(message)
                else:
                    other.owed[message] = topic

    def on_delivery(self, peer: Peer, found: Delivery) -> None:
        message = int(found.body)
        assert found.topic == self.topics[message]
        known = message in (self.shared_got if found.topic == SHARED else peer.got)
        if found.qos == 0:
            # After a crash it may come again: that it was sent is on the disk later.
            assert not known or message < self.since_crash or message in self.repeated, "a message of QoS 0 came again"
        elif found.qos == 1:
            peer.answers.append((PUBACK, found.id))
        else:
            peer.answers.append((PUBREC, found.id))
            if found.id in peer.held:
                assert found.bits & DUP
                assert peer.held[found.id] == message, "an identifier in flight means another message"
                known = True
            else:
                before = self.shared_got if found.topic == SHARED else peer.got
                assert before.get(message) != 2, "a message of QoS 2 came twice"
            peer.held[found.id] = message
        if found.qos:
            peer.open.add(found.id)
            assert len(peer.open) <= min(WINDOW, peer.window)
        if not known:
            self.check_order(peer, message, found.qos)
            peer.got[message] = found.qos
        if found.topic == SHARED:
            self.shared_got.setdefault(message, found.qos)

    def check_order(self, peer: Peer, message: int, qos: int) -> None:
        """What comes for the first time is newer than all before of its publisher and topic [MQTT-4.6.0-6]."""
        if qos == 0 or message in self.repeated or self.topics[message] == SHARED:
            return
        for other, other_qos in peer.got.items():
            if other > message and other_qos and other not in self.repeated:
                same = self.topics[other] == self.topics[message] and self.publisher[other] == self.publisher[message]
                assert not same, f"message {message} came after {other}"

    # ---- the broker

    def read_all(self) -> None:
        for peer in self.peers.values():
            if peer.raw is not None:
                self.read(peer)
                if peer.raw.lost:
                    self.lose(peer)

    @rule()
    def turn(self) -> None:
        self.rig.turn(sync=False)
        self.read_all()

    @rule()
    def sync(self) -> None:
        self.rig.sync()
        self.read_all()

    @rule(seconds=st.sampled_from([0, 1]))
    def every_second(self, seconds: int) -> None:
        self.rig.jump(1000 * seconds)
        self.rig.turn(sync=False)
        self.read_all()

    @precondition(lambda self: self.rig.store.finished is None and self.rig.commit is None)
    @rule()
    def checkpoint(self) -> None:
        self.rig.turn(sync=False)
        self.rig.rotate()
        self.read_all()

    @rule()
    def housekeep(self) -> None:
        self.rig.housekeep()

    @rule(written=st.booleans(), back=st.lists(NAME, max_size=4))
    def crash(self, written: bool, back: list[str]) -> None:
        """`written`: what was on its way is on the disk, and nobody has heard so."""
        if written and self.rig.commit is not None:
            self.rig.commit.run()
        for peer in self.peers.values():
            if peer.raw is not None:
                self.lose(peer)
        self.rig.crash()
        self.since_crash = self.next_message
        for name in back:
            self.attach(name, False, 65_535, True)

    # ---- what holds

    @invariant()
    def what_is_wanted_is_in_the_log(self) -> None:
        sessions = self.rig.vhost.sessions
        log = sessions.log
        live: set[int] = set()
        for first, end in sessions.needed(0, log.end):
            live.update(range(first, end))
        for client in sessions.by_number.values():
            assert len(client.inflight) <= WINDOW
            wanted = [at for first, end in client.mqueue.logged(0, log.end) for at in range(first, end)]
            wanted += [word >> PHASE_BITS for word in client.inflight.values() if word & 3 != AWAIT_PUBCOMP]
            for offset in wanted:
                if offset >= log.end:
                    continue  # of this turn
                block = log.block(offset)
                assert log.start <= offset and block is not None and block.base <= offset < block.end
                assert offset in live

    def teardown(self) -> None:
        try:
            self.settle_everything()
            self.end_everything()
        finally:
            self.rig.close()
            shutil.rmtree(self.folder)

    def settle_everything(self) -> None:
        """Every client is there and acknowledges until nothing more comes."""
        for name in NAMES:
            self.attach(name, False, 65_535, False)
        for _ in range(500):
            before = self.progress()
            for peer in self.peers.values():
                self.acknowledge(peer.name, 100, False)
            self.rig.turn()
            self.read_all()
            if before == self.progress():
                break
        for peer in self.peers.values():
            assert peer.connacked
            left = (peer.unacked, peer.unended, peer.held, peer.answers)
            assert left == ({}, set(), {}, []), (peer.name, left)
            if self.complete:
                missing = [message for message in peer.owed if message > 0 and message not in peer.got]
                assert not missing, (peer.name, missing)
        if self.complete and any(SHARE in peer.filters for peer in self.peers.values()):
            assert self.shared_owed <= set(self.shared_got)

    def progress(self) -> object:
        """What is another as long as anything happens."""
        return self.packets, [(peer.connacked, list(peer.answers)) for peer in self.peers.values()]

    def end_everything(self) -> None:
        """Sessions that have ended leave nothing behind."""
        for name in NAMES:
            self.attach(name, True, 65_535, False)
            self.detach(name)
            raw = self.rig.client()
            raw.send(connect(name))
            raw.vanish()
        self.rig.later(1000)
        sessions = self.rig.vhost.sessions
        assert not sessions.clients and not sessions.by_number and not sessions.offline and not sessions.connected
        assert not self.rig.vhost.fanout.subscriptions and not self.rig.vhost.catalog.queues
        assert sessions.log.start == sessions.log.end


class LimitedMachine(SessionsMachine):
    options = {"mqtt_max_mqueue_len": 2, "mqtt_mqueue_overflow": "drop"}
    complete = False


class PrioritiesMachine(SessionsMachine):
    options = {"mqtt_mqueue_priorities": {"b": 7}}


class SpillMachine(SessionsMachine):
    options = {"mqtt_max_mqueue_len": 2, "mqtt_mqueue_overflow": "spill"}


SETTINGS = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
SessionsMachine.TestCase.settings = SETTINGS
LimitedMachine.TestCase.settings = SETTINGS
PrioritiesMachine.TestCase.settings = SETTINGS
SpillMachine.TestCase.settings = SETTINGS
TestSessions = SessionsMachine.TestCase
TestLimited = LimitedMachine.TestCase
TestPriorities = PrioritiesMachine.TestCase
TestSpill = SpillMachine.TestCase
