"""Policies beside a naive model: after any history, and after a restart, each queue has the limits it should have."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from tests.node_rig import NodeRig

QUEUES = {"orders": "classic", "orders.old": "quorum", "prices": "stream"}
TARGETS = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}
NUMBERS = ("max-length", "max-length-bytes", "message-ttl", "delivery-limit")
KNOWN = {"classic": set(NUMBERS), "quorum": set(NUMBERS), "stream": {"max-length", "max-length-bytes", "message-ttl"}}

definitions = st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 9), min_size=1)
names = st.sampled_from("abc")


@dataclass(frozen=True)
class Set:
    """A policy is set."""

    name: str
    operator: bool
    pattern: str
    apply_to: str
    definition: dict[str, int]
    priority: int

    def covers(self, queue: str, queue_type: str) -> bool:
        about = self.apply_to in {"all", "queues", TARGETS[queue_type]}
        return about and re.search(self.pattern, queue) is not None


@dataclass(frozen=True)
class Clear:
    """A policy is cleared, if it is there."""

    name: str
    operator: bool


@dataclass(frozen=True)
class Declare:
    """A queue is declared, unless it is there."""

    queue: str
    definition: dict[str, int]


@dataclass(frozen=True)
class Delete:
    """A queue is deleted, if it is there."""

    queue: str


@dataclass(frozen=True)
class Restart:
    """The broker ends and begins again."""


steps = st.lists(
    st.one_of(
        st.builds(
            Set,
            names,
            st.booleans(),
            st.sampled_from(["", "^orders", "old$", "prices"]),
            st.sampled_from(["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]),
            definitions,
            st.integers(-2, 2),
        ),
        st.builds(Clear, names, st.booleans()),
        st.builds(Declare, st.sampled_from(sorted(QUEUES)), definitions),
        st.builds(Delete, st.sampled_from(sorted(QUEUES))),
        st.just(Restart()),
    ),
    max_size=25,
)


class Model:
    """What should be, by looking at everything each time."""

    def __init__(self) -> None:
        self.policies: dict[tuple[bool, str], Set] = {}
        self.queues: dict[str, dict[str, int]] = {}

    def definition(self, queue: str, operator: bool) -> dict[str, int]:
        matching = [
            policy
            for (side, _), policy in self.policies.items()
            if side == operator and policy.covers(queue, QUEUES[queue])
        ]
        matching.sort(key=lambda policy: (-policy.priority, policy.name))
        return matching[0].definition if matching else {}

    def number(self, queue: str, key: str) -> int:
        queue_type = QUEUES[queue]
        sources = [self.queues[queue], self.definition(queue, False), self.definition(queue, True)]
        if key in {"max-length", "message-ttl"} and queue_type == "stream":
            sources = sources[:1]
        asked = [source[key] for source in sources if key in source and key in KNOWN[queue_type]]
        if asked:
            return min(asked)
        return 20 if key == "delivery-limit" and queue_type == "quorum" else -1


def take(broker: NodeRig, step: object, model: Model) -> None:
    """Do one step here and in the model."""
    if isinstance(step, Set):
        set_policy(
            broker.vhost,
            step.name,
            step.pattern,
            dict(step.definition),
            step.priority,
            step.apply_to,
            operator=step.operator,
        )
        model.policies[step.operator, step.name] = step
    elif isinstance(step, Clear):
        there = (step.operator, step.name) in model.policies
        try:
            clear_policy(broker.vhost, step.name, operator=step.operator)
            assert there
        except RequestError:
            assert not there
        model.policies.pop((step.operator, step.name), None)
    elif isinstance(step, Declare) and step.queue not in model.queues:
        own = {key: value for key, value in step.definition.items() if key in KNOWN[QUEUES[step.queue]]}
        arguments: dict[str, object] = {"x-queue-type": QUEUES[step.queue]}
        arguments.update({f"x-{key}": value for key, value in own.items()})
        broker.vhost.catalog.declare_queue(step.queue.encode(), True, False, False, arguments, 1)
        model.queues[step.queue] = own
    elif isinstance(step, Delete):
        broker.vhost.upkeep.delete_queue(step.queue.encode(), False, False)
        model.queues.pop(step.queue, None)
    elif isinstance(step, Restart):
        broker.flush()
        broker.crash()


def check(vhost: Vhost, model: Model) -> None:
    assert {name.decode() for name in vhost.catalog.queues} == set(model.queues)
    for queue in model.queues:
        limits = vhost.catalog.queue(queue.encode()).limits
        ttl_ms = limits.message_ttl_us // 1000 if limits.message_ttl_us >= 0 else -1
        found = (limits.max_messages, limits.max_octets, ttl_ms, limits.delivery_limit)
        assert found == tuple(model.number(queue, key) for key in NUMBERS), queue


@given(steps)
def test_limits_are_those_of_a_naive_model(history: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = NodeRig(Path(folder) / "data")
        model = Model()
        for step in [*history, Restart()]:
            take(broker, step, model)
            check(broker.vhost, model)
        broker.close()
