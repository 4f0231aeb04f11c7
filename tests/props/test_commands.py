"""A log that is cut at any octet behind its first frame has the topology as it was after one of its commands."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.catalog.configured import configure_queue
from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.core.errors import RequestError
from tests.examples import examples
from tests.vhosts import OneVhost

Step = Callable[[OneVhost], object]
State = list[tuple[int, int, int, bytes]]
COUNTERS = (b"next-queue", b"next-vhost")  # what is transient has numbers, too, and no restart knows of it
NAMES = st.sampled_from([b"a", b"b", b"c"])
EXCHANGES = st.sampled_from([b"x", b"y", b"amq.topic"])
FLAGS = st.booleans()
WORDS = st.sampled_from(["one", "two"])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Something that an administrator or a client asks for."""
    name, other, exchange = draw(NAMES), draw(NAMES), draw(EXCHANGES)
    flag, odd, word = draw(FLAGS), draw(FLAGS), draw(WORDS)
    choices: list[Step] = [
        lambda rig: rig.vhost.catalog.declare_queue(name, flag, False, False, {"x-max-length": 5}, 1),
        lambda rig: configure_queue(rig.vhost.catalog, name, {"x-max-length": 6 + odd}, [b"t/#"], flag),
        lambda rig: rig.vhost.catalog.delete_queue(name, False, False),
        lambda rig: rig.vhost.catalog.declare_exchange(exchange, b"fanout", flag, odd, False, {}),
        lambda rig: rig.vhost.catalog.delete_exchange(exchange, False),
        lambda rig: rig.vhost.catalog.bind(name, exchange, b"k", {}),
        lambda rig: rig.vhost.catalog.unbind(name, exchange, b"k", {}),
        lambda rig: rig.vhost.catalog.bind_exchange(exchange, b"y", b"", {}),
        lambda rig: rig.vhost.catalog.add_group(rig.vhost.catalog.queue(name), other, b"", flag, 0, odd),
        lambda rig: rig.vhost.catalog.key_queue(rig.vhost.catalog.queue(name)),
        lambda rig: set_policy(rig.vhost, word, name.decode(), {"message-ttl": 5 + odd}, operator=flag),
        lambda rig: clear_policy(rig.vhost, word, operator=flag),
        lambda rig: rig.vhosts.add(other),
        lambda rig: rig.vhosts.change(rig.vhosts.find(other), {"queues_max": 3 + odd}),
        lambda rig: rig.vhosts.delete(other),
        lambda rig: rig.vhosts.directory.users.add(word, "", ["management"] if odd else []),
        lambda rig: rig.vhosts.directory.users.set_tags(word, ["monitoring"]),
        lambda rig: rig.vhosts.directory.users.set_limits(word, {"connections_max": 3 - 4 * odd}),
        lambda rig: rig.vhosts.directory.users.delete(word),
        lambda rig: rig.vhosts.directory.users.set_permissions(word, other, "", word, ".*"),
        lambda rig: rig.vhosts.directory.users.clear_permissions(word, other),
        lambda rig: rig.vhosts.directory.users.set_topic_permissions(word, b"/", exchange, word, ".*"),
        lambda rig: rig.vhosts.directory.users.clear_topic_permissions(word, b"/", exchange if flag else None),
        lambda rig: rig.vhosts.directory.parameters.set(b"/", "shovel", word, {"on": flag}),
        lambda rig: rig.vhosts.directory.parameters.clear(b"/", "shovel", word),
        lambda rig: rig.vhosts.directory.parameters.set_global(word, [flag]),
        lambda rig: rig.vhosts.directory.parameters.clear_global(word),
    ]
    return draw(st.sampled_from(choices))


def state(rig: OneVhost) -> State:
    entries = [entry.key() for entry in rig.vhosts.checkpoint()]
    return sorted(key for key in entries if not any(counter in key[3] for counter in COUNTERS))


def recovered(folder: Path, octets: int) -> State:
    """What a broker comes to whose log ends after so many octets of its last file."""
    with tempfile.TemporaryDirectory(prefix="cut-") as name:
        copy = Path(name, "data")
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("LOCK"))
        with max(copy.glob("wal/*.wal")).open("r+b") as file:
            file.truncate(octets)
        rig = OneVhost(copy, mqtt_sys_interval_s=0)
        try:
            return state(rig)
        finally:
            rig.close()


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(steps(), min_size=5, max_size=25), st.lists(st.floats(0, 1), min_size=3, max_size=4))
def test_a_cut_leaves_a_prefix_of_the_commands(asked: list[Step], cuts: list[float]) -> None:
    with tempfile.TemporaryDirectory(prefix="commands-") as name:
        rig = OneVhost(Path(name), mqtt_sys_interval_s=0)
        rig.flush()
        states, ends = [state(rig)], [rig.store.wals[-1].tail]
        for step in asked:
            with suppress(RequestError):
                step(rig)
            rig.flush()
            states.append(state(rig))
            ends.append(rig.store.wals[-1].tail)
        assert len(rig.store.wals) == 1
        for cut in cuts:
            octets = ends[0] + round(cut * (ends[-1] - ends[0]))
            whole = max(index for index, end in enumerate(ends) if end <= octets)
            assert recovered(Path(name), octets) == states[whole]
        assert recovered(Path(name), ends[-1]) == states[-1]
        rig.close()
