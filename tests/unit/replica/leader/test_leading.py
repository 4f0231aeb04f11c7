"""A leader commits what the maximal set has synced, delivers under its lease, and leads an epoch once in its life."""

from __future__ import annotations

import pytest

from forebay.core.errors import RequestError
from forebay.replica.leader.shipping import SendWindow
from forebay.replica.member import Member
from forebay.replica.messages import Acknowledgement, Append, CopyOffer, Heartbeat, HeartbeatAnswer, RunsDiffer
from forebay.replica.outcome import FOLLOWER, LEADER, PREPARING
from forebay.replica.register import FORCED, IN_SYNC, OPERATOR, TAKE_OVER, TRANSFER
from forebay.replica.settings import ReplicaSettings
from tests.replica_rig import MS, SECOND, HeldMember, frames, leader, store, value

# The commit and the barrier.


def nothing_is_committed_before_the_barrier(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1))
    held.see(value(2, "a"))
    held.sync()
    held.acknowledge(2, "b", "c")  # all that the last leader had
    assert held.commit() == 0
    assert not held.can_deliver()
    held.acknowledge(3, "b", "c")
    assert held.commit() == 3


def a_new_leader_keeps_all_its_frames(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1, 1))
    held.see(value(2, "a"))
    held.sync()
    assert [epoch for epoch, _ in held.log.frames] == [1, 1, 1, 2]


def an_acknowledgement_counts_for_its_epoch_alone(made: type[Member]) -> None:
    held = leader(made)
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b", "c", epoch=1)
    assert held.commit() == lsn - 1
    held.acknowledge(lsn, "b", "c")
    assert held.commit() == lsn


def a_member_that_is_being_put_out_still_counts(made: type[Member]) -> None:
    held = leader(made)
    held.now += MS
    held.refused("c")
    assert set(held.change().value.in_sync) == {"a", "b"}
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn - 1
    held.see(value(2, "a", in_sync="ab", why=IN_SYNC))
    assert held.commit() == lsn


def a_member_that_is_being_taken_in_counts(made: type[Member]) -> None:
    held = leader(made, in_sync="ab")
    join(held, "c")
    assert set(held.change().value.in_sync) == {"a", "b", "c"}
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn - 1
    held.acknowledge(lsn, "c")
    assert held.commit() == lsn


def join(held: HeldMember, node: str, number: int = 1) -> None:
    """A learner that has all frames joins and is put into the register."""
    held.answer(node, number=number)
    held.acknowledge(len(held.log.frames) - 1, node, number=number)
    held.pass_time(50 * MS)
    held.acknowledge(len(held.log.frames), node, number=number)


# The lease.


def a_lease_begins_when_the_heartbeat_was_sent(made: type[Member]) -> None:
    held = leader(made)
    sent = held.now
    held.answer("b", "c")
    held.now += 800 * MS
    held.answer("b", "c", sent=sent)  # on its way for long
    assert held.can_deliver()
    held.now += 99 * MS
    assert held.can_deliver()
    held.now += MS
    assert not held.can_deliver()


def a_lease_ends_before_a_follower_may_take_over(made: type[Member]) -> None:
    held = leader(made)
    held.answer("b", "c")
    held.now += 950 * MS
    assert not held.can_deliver()


def a_lease_is_of_the_whole_maximal_set(made: type[Member]) -> None:
    held = leader(made, in_sync="ab")
    join(held, "c")
    assert "c" in held.change().value.in_sync
    held.now += 700 * MS
    held.answer("b")
    held.now += 250 * MS
    assert not held.can_deliver()  # c may have been taken in, and lead by now
    held.answer("c")
    assert held.can_deliver()


def a_transfer_stops_deliveries_at_once(made: type[Member]) -> None:
    held = leader(made)
    assert held.can_deliver()
    held.member.transfer("b", held.now)
    assert not held.can_deliver()
    held.look()
    change = held.change()
    assert (change.value.leader, change.value.epoch, change.value.why) == ("b", 3, TRANSFER)
    held.see(value(2, "a", in_sync="ab", why=OPERATOR))  # somebody else was first: the transfer has failed for ever
    held.answer("b")
    assert held.can_deliver()


def nothing_is_delivered_during_a_promise(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1))
    held.see(value(2, "a"))
    held.sync()
    held.acknowledge(3, "b", "c")
    held.answer("b", "c")
    assert held.commit() == 3  # it confirms,
    assert not held.can_deliver()  # as another leader may have had its word before it started
    for _ in range(21):
        held.pass_time(50 * MS)
        held.answer("b", "c")
    assert held.can_deliver()


# Changes of the register.


def an_unknown_outcome_is_asked_for_with_the_same_change(made: type[Member]) -> None:
    held = leader(made)
    held.now += MS
    held.refused("c")
    first = held.change()
    lsn = held.append()
    held.sync()
    held.pass_time(250 * MS)
    assert held.changes == []
    held.answer("b")
    held.pass_time(100 * MS)
    assert held.changes == [first]
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn - 1


def the_same_revision_settles_nothing(made: type[Member]) -> None:
    held = leader(made)
    held.member.transfer("b", held.now)
    held.look()
    held.see(value(2, "a"), held.revision)
    assert not held.can_deliver()
    held.pass_time(300 * MS)
    assert len(held.changes) == 2
    assert held.changes[0] is held.changes[1]


# Epochs.


def an_epoch_that_it_may_have_led_before_its_start_is_not_led_again(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1), promised=2)
    held.see(value(2, "a"))
    held.sync()
    assert held.role() == FOLLOWER
    held.pass_time(50 * MS)
    change = held.change()
    assert (change.value.epoch, change.value.leader, set(change.value.in_sync)) == (3, "a", {"a", "b", "c"})
    held.see(change.value)
    held.sync()
    assert (held.role(), held.begun) == (LEADER, 3)


LEADING = [
    (nothing_is_committed_before_the_barrier, "no_barrier_but_acks"),
    (nothing_is_committed_before_the_barrier, "no_barrier"),
    (a_new_leader_keeps_all_its_frames, "cut_own_tail"),
    (an_acknowledgement_counts_for_its_epoch_alone, "ack_any_epoch"),
    (a_member_that_is_being_put_out_still_counts, "shrink_early"),
    (a_member_that_is_being_taken_in_counts, "commit_ignores_add"),
    (a_lease_begins_when_the_heartbeat_was_sent, "lease_from_receipt"),
    (a_lease_ends_before_a_follower_may_take_over, "lease_long"),
    (a_lease_is_of_the_whole_maximal_set, "lease_confirmed_isr"),
    (a_transfer_stops_deliveries_at_once, "transfer_no_stop"),
    (nothing_is_delivered_during_a_promise, "deliver_during_promise"),
    (an_unknown_outcome_is_asked_for_with_the_same_change, "unknown_as_failed"),
    (the_same_revision_settles_nothing, "same_rev_is_failed"),
    (an_epoch_that_it_may_have_led_before_its_start_is_not_led_again, "restart_same_epoch"),
]


def test_all_of_the_set_and_the_own_disk_count() -> None:
    held = leader()
    lsn = held.append()
    held.acknowledge(lsn, "b", "c")
    assert held.commit() == lsn - 1
    held.sync()
    assert held.commit() == lsn
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn - 1


def test_another_store_of_a_member_does_not_count() -> None:
    held = leader()
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    held.acknowledge(lsn, "c", number=2)
    assert held.commit() == lsn - 1


def test_more_than_was_sent_is_not_acknowledged() -> None:
    held = leader()
    held.acknowledge(99, "b", "c")
    lsn = held.append()
    held.sync()
    assert held.commit() == lsn - 1


def test_with_fewer_than_min_in_sync_nothing_is_committed() -> None:
    held = leader(in_sync="a", min_in_sync=2)
    held.append()
    held.sync()
    assert held.commit() == 0
    assert held.member.take().confirmed == 0


def test_in_asynchronous_mode_the_own_disk_confirms_and_all_commit() -> None:
    held = leader()
    held.settings.is_async = True
    lsn = held.append()
    assert held.member.take().confirmed == lsn - 1
    held.sync()
    out = held.member.take()
    assert (out.commit, out.confirmed) == (lsn - 1, lsn)
    held.acknowledge(lsn, "b", "c")
    assert held.commit() == lsn


def test_it_leads_once_its_promise_is_on_the_disk() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "a"))
    assert (held.role(), held.promise) == (PREPARING, 2)
    held.member.promised(1, held.now)
    held.look()
    assert held.role() == PREPARING
    held.sync()
    assert (held.role(), held.begun) == (LEADER, 2)


def test_a_store_that_is_not_in_the_register_does_not_lead() -> None:
    held = HeldMember(Member, frames(1, 1))
    said = value(2, "a")
    said.in_sync["a"] = store("a", 9)
    held.see(said)
    held.sync()
    held.pass_time(2 * SECOND)
    assert held.begun == 0
    assert held.changes == []


def test_a_higher_epoch_ends_its_leadership() -> None:
    held = leader()
    held.see(value(3, "b"))
    assert (held.role(), held.out.epoch, held.out.leader) == (FOLLOWER, 3, "")
    assert not held.can_deliver()
    held.member.written(2, 99, held.now)
    assert held.commit() == 3


def test_an_old_sight_of_the_register_means_nothing() -> None:
    held = leader()
    held.see(value(2, "a", in_sync="ab"), 9)
    held.see(value(2, "a", in_sync="abc"), 8)
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn


def test_heartbeats_say_the_time_and_the_commit() -> None:
    held = leader()
    held.pass_time(250 * MS)
    beats = held.heard_by("b", Heartbeat)
    assert beats
    last = beats[-1]
    assert isinstance(last, Heartbeat)
    assert (last.epoch, last.commit) == (2, 3)
    assert held.now - 250 * MS < last.sent_us <= held.now


def test_an_answer_from_the_future_is_no_lease() -> None:
    held = leader()
    held.now += SECOND
    held.answer("b", "c", sent=held.now + SECOND)
    assert not held.can_deliver()


def test_a_transfer_goes_only_to_who_can_lead() -> None:
    held = leader(in_sync="ab")
    for to in ("c", "x"):
        with pytest.raises(RequestError, match="no follower that is in sync"):
            held.member.transfer(to, held.now)
    held.now += 700 * MS
    with pytest.raises(RequestError, match="not caught up"):
        held.member.transfer("b", held.now)
    held.answer("b")
    held.member.transfer("b", held.now)
    with pytest.raises(RequestError, match="under way"):
        held.member.transfer("b", held.now)


def test_a_transfer_that_is_asked_for_again_once_it_is_done_is_no_error() -> None:
    held = leader(in_sync="ab")
    held.member.transfer("a", held.now)
    assert held.changes == []


def test_only_a_leader_transfers_and_removes() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    with pytest.raises(RequestError, match="does not lead"):
        held.member.transfer("c", held.now)
    with pytest.raises(RequestError, match="does not lead"):
        held.member.remove("c", held.now)


def test_who_is_transferred_to_delivers_at_once() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    held.sync()
    for _ in range(30):
        held.pass_time(50 * MS)
        held.hear("b", Heartbeat(2, 1, 0))
    held.see(value(3, "a", why=TRANSFER, by="b"))
    held.sync()
    held.acknowledge(3, "b", "c")
    held.answer("b", "c")
    assert held.can_deliver()


def test_who_takes_over_waits_for_its_promise() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    held.sync()
    for _ in range(30):
        held.pass_time(50 * MS)
        held.hear("b", Heartbeat(2, 1, 0))
    held.see(value(3, "a", in_sync="ac", why=TAKE_OVER))
    held.sync()
    held.acknowledge(3, "c")
    held.answer("c")
    assert not held.can_deliver()
    held.now += SECOND + 1
    held.answer("c")
    assert held.can_deliver()


def test_the_survivor_is_forced_to_go_on_alone() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    held.member.force(held.now)
    held.look()
    change = held.change()
    said = change.value
    assert (said.epoch, said.leader, said.in_sync, said.min_in_sync) == (3, "a", {"a": store("a")}, 1)
    assert said.why == FORCED
    with pytest.raises(RequestError, match="under way"):
        held.member.force(held.now)


def test_a_store_that_is_not_in_sync_is_not_forced() -> None:
    held = HeldMember(Member, frames(1, 1))
    with pytest.raises(RequestError, match="not been seen"):
        held.member.force(held.now)
    held.see(value(2, "b", in_sync="bc"))
    with pytest.raises(RequestError, match="not in sync"):
        held.member.force(held.now)


# Shipping.


def test_frames_go_out_at_once_with_the_one_before() -> None:
    held = leader()
    held.append()
    (message,) = held.heard_by("b", Append)
    assert isinstance(message, Append)
    assert (message.prev_lsn, message.prev_epoch, message.commit) == (3, 2, 3)
    assert [(each.first, each.last) for each in message.shipments] == [(4, 4)]


def test_a_member_that_lacks_frames_is_sent_all_from_where_the_logs_part() -> None:
    held = leader(in_sync="ab", log=frames(1, 1, 1, 1))
    held.hear("c", RunsDiffer(2, store("c"), [(0, 3, 9), (1, 1, 2)]))
    messages = held.heard_by("c", Append)
    first = messages[0]
    assert isinstance(first, Append)
    assert (first.prev_lsn, first.prev_epoch) == (2, 1)
    assert [(each.first, each.last) for each in first.shipments] == [(3, 5)]


def test_a_member_whose_frames_are_gone_is_offered_a_copy() -> None:
    held = leader(in_sync="ab", log=frames(1, 1, 1, 1))
    held.log.gone = 3
    held.hear("c", RunsDiffer(2, store("c"), [(1, 1, 2)]))
    assert held.heard_by("c", CopyOffer)
    assert held.heard_by("c", Append) == []
    held.append()
    assert held.heard_by("c", Append) == []
    held.now += 100 * MS
    held.hear("c", RunsDiffer(2, store("c", 2), [(1, 1, 4)]))  # it has copied, and begins anew
    assert held.heard_by("c", Append)


def test_a_window_holds_so_much_and_opens_with_acknowledgements() -> None:
    held = leader()
    held.settings.window_frames_max = 3
    for _ in range(5):
        held.append()
    assert len(held.heard_by("b", Append)) == 3
    held.acknowledge(4, "b")
    assert len(held.heard_by("b", Append)) == 1
    held.acknowledge(8, "b")
    assert held.heard_by("b", Append) == []


def test_octets_fill_a_window_too() -> None:
    held = leader()
    held.settings.window_octets_max = 1
    held.append()
    held.append()
    assert len(held.heard_by("b", Append)) == 1


def test_what_seems_lost_is_sent_again_with_more_and_more_patience() -> None:
    held = leader()
    held.append()
    held.heard_by("b", Append)
    gaps: list[int] = []
    last = held.now
    for _ in range(70):
        held.pass_time(50 * MS)
        held.answer("b", "c")
        if held.heard_by("b", Append):
            gaps.append((held.now - last) // MS)
            last = held.now
    assert 200 <= gaps[0] <= 450
    assert gaps == sorted(gaps)
    assert gaps[-1] > gaps[0]


def test_a_new_connection_is_sent_at_once_what_the_old_one_may_have_lost() -> None:
    held = leader()
    held.append()
    held.heard_by("b", Append)
    held.member.connected("b", held.now)
    held.look()
    (message,) = held.heard_by("b", Append)
    assert isinstance(message, Append)
    assert message.prev_lsn == 3
    assert held.heard_by("b", Heartbeat)


def test_a_member_of_which_nothing_is_known_is_asked_how_far_it_is() -> None:
    held = leader(in_sync="ab")
    held.answer("c")
    held.pass_time(450 * MS)
    asked = [message for message in held.heard_by("c", Append) if isinstance(message, Append) and not message.shipments]
    assert asked
    assert (asked[-1].prev_lsn, asked[-1].prev_epoch) == (3, 2)


def test_answers_to_what_it_did_not_ask_mean_nothing() -> None:
    held = leader()
    held.hear("x", Acknowledgement(2, 3, store("x")))
    held.hear("x", HeartbeatAnswer(2, held.now, store("x")))
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b", "c")
    assert held.commit() == lsn


def test_a_window_takes_so_many_frames_also_after_what_was_sent_is_lost() -> None:
    settings = ReplicaSettings()
    settings.window_frames_max = 2
    window = SendWindow(5, 0, settings)
    for first in (5, 9):
        window.go_to(first)
        for lsn in (first, first + 1):
            assert window.is_open(settings)
            window.sent(lsn, 10, 0)
        assert not window.is_open(settings)
    window.acknowledged(9)
    assert window.is_open(settings)
    assert window.octets == 10
