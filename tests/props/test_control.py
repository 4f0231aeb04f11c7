"""Operations: whatever they are given, they answer or refuse, and a restart brings back what they did."""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.audit import Origin
from forebay.broker.control.operations import FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE, Connections
from forebay.broker.control.table import OPERATIONS, Control
from forebay.broker.judge import Principal
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import RequestError
from forebay.core.options import make_options
from forebay.log.store import Store
from forebay.server.disk import DataDisk
from tests.stores import SMALL, TestClock

# Names that hit something, beside those that hit nothing.
TEXTS_OFTEN = st.sampled_from(
    [
        "/",
        "v",
        "q",
        "s",
        "e",
        "amq.topic",
        "guest",
        "ann",
        "classic",
        "quorum",
        "stream",
        "topic",
        "exchange",
        "k",
        ".*",
        "",
    ]
)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "x-max-length": st.integers(-2, 5),
        "x-queue-type": st.sampled_from(["stream", "classic", "round"]),
        "x-message-ttl": st.integers(-1, 10),
        "message-ttl": st.integers(-1, 10) | st.text(max_size=2),
        "max-length": st.integers(-1, 10),
        "alternate-exchange": st.sampled_from(["e", "amq.topic"]),
        "x": st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    },
)
VALUES = {
    TEXT: TEXTS_OFTEN | st.text(max_size=5),
    WHOLE: st.integers(-2, 8) | st.integers(),
    FLAG: st.booleans(),
    TABLE: TABLES,
    RANGES: st.lists(st.integers(-1, 8) | st.lists(st.integers(0, 8), min_size=1, max_size=3), max_size=4),
    TEXTS: st.lists(TEXTS_OFTEN | st.sampled_from(["administrator", "monitoring"]), max_size=2),
}
ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.lists(st.integers(), max_size=1))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """An operation, mostly with arguments of the right types."""
    name = draw(st.sampled_from(sorted(OPERATIONS)))
    given: dict[str, object] = {}
    for parameter in OPERATIONS[name].parameters:
        if parameter.required or draw(st.booleans()):
            often = VALUES[parameter.type] if draw(st.integers(0, 9)) else ANYTHING
            given[parameter.name] = draw(often)
    return name, given


class Nobody(Connections):
    """A broker to which nobody is connected."""

    def listed(self) -> list[dict[str, object]]:
        return []

    def find(self, id: int) -> dict[str, object] | None:
        return None

    def channels(self) -> list[dict[str, object]]:
        return []

    def close(self, id: int, text: str) -> bool:
        return False


class Broker:
    """The vhosts of a data folder, and the way in for administrators."""

    def __init__(self, folder: str, clock: TestClock) -> None:
        self.disk = DataDisk(folder)
        self.store = Store(self.disk, clock, SMALL)
        recovery = self.store.open()
        self.clock = clock
        self.vhosts = Vhosts(self.store, make_options({}))
        self.vhosts.recover(recovery.entries, clock.us)
        self.store.start(self.vhosts.checkpoint())
        self.control = Control(self.vhosts, Nobody())
        self.turn()

    def turn(self) -> None:
        self.clock.us += 1000
        self.vhosts.end_turn(self.clock.us)
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.synced(commit)
            self.vhosts.synced()

    def ask(self, name: str, given: dict[str, object]) -> dict[str, object] | None:
        """The answer as a client reads it; None where it was refused."""
        try:
            answer = self.control.run(Origin(Principal("guest"), "", ""), name, given)
        except RequestError:
            return None
        finally:
            self.turn()
        read: dict[str, object] = json.loads(json.dumps(answer))
        return read

    def picture(self) -> list[object]:
        """All that lists say of what is durable."""
        found: list[object] = [self.ask("vhost.list", {}), self.ask("user.list", {}), self.ask("permission.list", {})]
        found.append(self.ask("topic_permission.list", {}))
        for vhost in self.vhosts.all():
            name = vhost.name.decode()
            for part in ("policy.list", "operator_policy.list", "exchange.list", "queue.list", "binding.list"):
                found.append(self.ask(part, {"vhost": name, "limit": 1000}))
        return found

    def drop_transient(self) -> None:
        """Take away what a restart takes away."""
        for vhost in self.vhosts.all():
            for queue in [each for each in vhost.queues.values() if not each.log.durable]:
                vhost.remove_queue(queue)
            vhost.drop_exchanges([name for name, each in vhost.bindings.exchanges.items() if not each.durable])
        self.turn()


@settings(max_examples=60)
@given(st.lists(requests(), min_size=5, max_size=40))
def test_operations_answer_or_refuse_and_last(asked: list[tuple[str, dict[str, object]]]) -> None:
    clock = TestClock()
    with TemporaryDirectory() as folder:
        broker = Broker(folder, clock)
        made: list[tuple[str, dict[str, object]]] = [
            ("queue.declare", {"queue": "q"}),
            ("queue.declare", {"queue": "s", "type": "stream"}),
            ("exchange.declare", {"exchange": "e", "type": "topic"}),
            ("binding.add", {"exchange": "e", "destination": "q", "routing_key": "k"}),
            ("vhost.add", {"vhost": "v"}),
            ("user.add", {"user": "ann"}),
        ]
        for name, given in made:
            assert broker.ask(name, given) is not None
        for name, given in asked:
            broker.ask(name, given)
        broker.drop_transient()
        before = broker.picture()
        broker.disk.close_all()
        again = Broker(folder, clock)
        assert again.picture() == before
        again.disk.close_all()
