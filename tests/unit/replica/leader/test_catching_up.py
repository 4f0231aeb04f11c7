"""Members that are far behind: what is kept for them, the copy, the orders to rewrite, and how fast they are sent."""

from __future__ import annotations

from forebay.replica.messages import Append, CopyAsk, CopyGrant, CopyOffer, PeerMessage, RewriteOrder, RunsDiffer
from tests.replica_rig import MS, HeldMember, frames, leader, only, store, value


def needs_copy() -> HeldMember:
    """A leader that has no frames for `c` any more."""
    held = leader(in_sync="ab", log=frames(1, 1, 1, 1))
    held.log.gone = 3
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 2)]))
    assert only(held.heard_by("c", CopyOffer))
    return held


def test_a_copy_is_granted_to_a_store_that_then_never_counts() -> None:
    held = needs_copy()
    held.hear("c", CopyAsk(2, store("c")))
    grant = only(held.heard_by("c", CopyGrant))
    assert isinstance(grant, CopyGrant)
    assert grant.store_id == store("c")
    for _ in range(5):  # the old store, in messages that were on their way: it must not come into the register
        held.answer("b", "c")
        held.acknowledge(5, "c")
        held.pass_time(50 * MS)
    assert held.changes == []
    assert held.heard_by("c", CopyGrant)  # again with the heartbeats: the first may have been lost
    assert held.heard_by("c", Append) == []


def test_a_store_that_counts_is_granted_no_copy() -> None:
    held = leader()
    held.hear("c", CopyAsk(2, store("c")))
    assert held.heard_by("c", CopyGrant) == []
    held = leader(in_sync="ab")
    held.answer("c")
    held.acknowledge(2, "c")
    held.pass_time(50 * MS)  # it joins
    held.hear("c", CopyAsk(2, store("c")))
    assert held.heard_by("c", CopyGrant) == []


def test_the_store_that_comes_of_a_copy_joins_like_a_stranger() -> None:
    held = needs_copy()
    held.hear("c", CopyAsk(2, store("c")))
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    held.answer("b")
    held.answer("c", number=2)
    held.pass_time(50 * MS)
    held.said.clear()
    held.hear("c", RunsDiffer(2, store("c", 2), [(2, 5, 5), (1, 1, 4)]))
    first = held.heard_by("c", Append)[0]
    assert isinstance(first, Append)
    assert first.prev_lsn == 5
    held.acknowledge(lsn, "c", number=2)
    held.pass_time(50 * MS)
    held.pass_time(50 * MS)
    assert held.change().value.in_sync["c"] == store("c", 2)


def test_files_are_kept_from_where_somebody_lacks_frames() -> None:
    held = leader(in_sync="ab", log=frames(1, 1, 1, 1))
    assert held.member.take().keep_from == 1  # nobody knows how far c is
    held.acknowledge(4, "c")
    assert held.member.take().keep_from == 4
    held.acknowledge(5, "c")
    assert held.member.take().keep_from == 5
    held.append()
    assert held.member.take().keep_from == 5
    held.see(value(2, "a", in_sync="a", members="a", min_in_sync=1))
    assert held.member.take().keep_from == 5  # the last that is committed
    held.sync()
    assert held.member.take().keep_from == 6


def test_files_are_kept_from_where_a_copy_began() -> None:
    held = needs_copy()
    assert held.member.take().keep_from == 1
    held.hear("c", CopyAsk(2, store("c")))
    end = len(held.log.frames)
    held.append()
    held.acknowledge(end + 1, "b")
    assert held.member.take().keep_from == end


def orders(messages: list[PeerMessage]) -> list[int]:
    return [int(message.number) for message in messages if isinstance(message, RewriteOrder)]


def test_an_order_to_rewrite_is_told_once_the_file_is_there() -> None:
    held = leader()
    held.append()
    held.member.rewritten(1, 3, {1: [(0, 5)]}, held.now)
    held.member.rewritten(2, 4, {}, held.now)
    held.look()
    assert orders(held.heard_by("b", RewriteOrder)) == [1]
    held.acknowledge(4, "b")
    assert orders(held.heard_by("b", RewriteOrder)) == [2]
    assert orders(held.heard_by("c", RewriteOrder)) == [1]


def test_orders_are_told_again_after_a_new_connection() -> None:
    held = leader()
    lsn = held.append()
    held.member.rewritten(1, 3, {1: [(0, 5)]}, held.now)
    held.look()
    held.heard_by("b", RewriteOrder)
    held.member.connected("b", held.now)
    held.look()
    held.acknowledge(lsn, "b")
    assert orders(held.heard_by("b", RewriteOrder)) == [1]


def test_a_learner_is_sent_so_many_octets_a_second() -> None:
    held = leader(in_sync="ab", log=frames(*[1] * 3000))
    held.settings.window_frames_max = 1 << 20
    held.settings.learner_octets_s = 20_000
    sent = 0
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 1)]))
    for _ in range(40):
        held.answer("b", "c")
        held.pass_time(50 * MS)
        for message in held.heard_by("c", Append):
            assert isinstance(message, Append)
            sent += sum(len(each.octets) for each in message.shipments)
            held.acknowledge(message.shipments[-1].last if message.shipments else 0, "c")
    assert 20_000 < sent < 60_000


def sent_under_load(is_busy: bool) -> tuple[int, int]:
    """The octets that `b`, which is in sync, and `c`, which is far behind, are sent by a leader with much to do."""
    held = leader(in_sync="ab", log=frames(*[1] * 5000))
    held.settings.window_frames_max = 1 << 20
    held.settings.learner_octets_s = held.settings.busy_octets_s = 80
    held.member.standing.is_busy = is_busy
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 1)]))
    sent = {"b": 0, "c": 0}
    for _ in range(40):
        held.answer("b", "c")
        for _ in range(10):
            held.append()
        held.pass_time(50 * MS)
        for node in sent:
            for message in held.heard_by(node, Append):
                assert isinstance(message, Append)
                sent[node] += sum(len(each.octets) for each in message.shipments)
                held.acknowledge(message.shipments[-1].last if message.shipments else 0, node)
    return sent["b"], sent["c"]


def test_a_learner_is_sent_more_than_those_in_sync() -> None:
    """Else it would never catch up while there is much to do."""
    in_sync, learner = sent_under_load(is_busy=False)
    assert learner > 1.2 * in_sync > 0


def test_a_busy_leader_sends_a_learner_less_but_still_more_than_those_in_sync() -> None:
    in_sync, learner = sent_under_load(is_busy=True)
    assert sent_under_load(is_busy=False)[1] > learner > 1.1 * in_sync > 0


def test_a_learner_that_is_far_behind_is_sent_little_in_one_go() -> None:
    """The frames are read from files by the one thread that everybody waits for."""
    held = leader(in_sync="ab", log=frames(*[1] * 3000))
    held.settings.learner_burst = 1
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 1)]))
    for _ in range(3):
        (message,) = held.heard_by("c", Append)
        assert isinstance(message, Append)
        held.acknowledge(message.shipments[-1].last, "c")  # at which it is sent more


def test_a_learner_that_is_near_the_end_is_sent_all() -> None:
    held = leader(in_sync="ab", log=frames(*[1] * 100))
    held.settings.learner_octets_s = 1
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 1)]))
    last = held.heard_by("c", Append)[-1]
    assert isinstance(last, Append)
    assert last.shipments[-1].last == 101
