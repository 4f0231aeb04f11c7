"""Operations: whatever they are given, they answer or refuse, and a restart brings back what they did."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.audit import Origin
from forebay.broker.catalog.commands.exchanges import RemoveExchange
from forebay.core.errors import RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.management.parameters import ANY, FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE
from forebay.management.table import OPERATIONS
from tests.answer_shapes import check_shape
from tests.examples import examples
from tests.node_rig import NodeRig

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
    ANY: st.none() | st.booleans() | st.integers() | st.text(max_size=3) | TABLES,
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


class Broker(NodeRig):
    """A node, and the way in for administrators."""

    def turn(self, sync: bool = True) -> None:
        """As of any node, a millisecond later."""
        self.clock.us += 1000
        super().turn(sync)

    def ask(self, name: str, given: dict[str, object]) -> dict[str, object] | None:
        """The answer as a client reads it; None where it was refused."""
        try:
            answer = self.broker.control.run(Origin(Principal("guest"), "", ""), name, given)
        except RequestError:
            return None
        finally:
            self.flush()
        read: dict[str, object] = json.loads(json.dumps(answer))
        check_shape(name, read)
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
            for queue in [each for each in vhost.catalog.queues.values() if not each.log.durable]:
                vhost.catalog.remove_queue(queue)
            for name in [name for name, each in vhost.catalog.bindings.exchanges.items() if not each.durable]:
                vhost.catalog.execute(RemoveExchange(name))
        self.flush()


@settings(max_examples=examples(60))
@given(st.lists(requests(), min_size=5, max_size=40))
def test_operations_answer_or_refuse_and_last(asked: list[tuple[str, dict[str, object]]]) -> None:
    with TemporaryDirectory() as folder:
        broker = Broker(Path(folder), None, mqtt_sys_interval_s=0)
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
        broker.crash()
        assert broker.picture() == before
        broker.close()
