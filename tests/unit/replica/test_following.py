"""A follower verifies, syncs and only then acknowledges; it refuses lower epochs, and its word is on the disk first."""

from __future__ import annotations

from forebay.replica.member import Member
from forebay.replica.messages import (
    Acknowledgement,
    Append,
    CopyAsk,
    CopyGrant,
    CopyOffer,
    Heartbeat,
    HeartbeatAnswer,
    RefusedEpoch,
    RewriteOrder,
    RunsDiffer,
    encode_message,
)
from forebay.replica.outcome import FOLLOWER, LEARNER
from tests.replica_rig import SECOND, HeldMember, follower, frames, only, store, value


def frames_are_taken_only_behind_the_one_before(made: type[Member]) -> None:
    held = follower(made)
    held.hear_append("b", 2, (5, 1), 2)
    answer = only(held.heard_by("b", RunsDiffer))
    assert isinstance(answer, RunsDiffer)
    assert answer.runs == [(1, 1, 2)]
    held.hear_append("b", 2, (2, 2), 2)  # there is a frame, of another epoch
    assert held.heard_by("b", RunsDiffer)
    assert held.log.frames == frames(1, 1)


def an_acknowledgement_waits_for_the_sync(made: type[Member]) -> None:
    held = follower(made)
    held.hear_append("b", 2, (2, 1), 2, 2)
    assert held.acknowledged("b") == []
    held.sync()
    assert held.acknowledged("b") == [4]


def an_acknowledgement_is_never_the_end_of_the_log(made: type[Member]) -> None:
    held = follower(made, frames(1, 1, 1, 1, 1))
    held.hear_append("b", 2, (2, 1))
    held.sync()
    assert held.acknowledged("b") == [2]
    held.hear_append("b", 2, (2, 1), 2)  # a proven conflict: the log is cut
    held.sync()
    assert held.acknowledged("b") == [3]
    assert [epoch for epoch, _ in held.log.frames] == [1, 1, 2]


def a_lower_epoch_is_refused(made: type[Member]) -> None:
    held = follower(made)
    held.hear_append("c", 1, (2, 1), 1)
    refusal = only(held.heard_by("c", RefusedEpoch))
    assert refusal.epoch == 2
    assert held.log.frames == frames(1, 1)


def an_acknowledgement_waits_for_the_promise(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1))
    held.see(value(2, "b"))
    held.hear_append("b", 2, (2, 1))
    held.member.written(2, 2, held.now)
    held.look()
    assert held.acknowledged("b") == []
    assert held.promise == 2
    held.sync()
    assert held.acknowledged("b")[-1] == 2


def frames_of_an_older_leader_are_not_taken_any_more(made: type[Member]) -> None:
    held = follower(made, frames(1, 1, 1))
    source = HeldMember(Member, [*frames(1, 1), (2, ("new",))])
    shipments = source.log.frames_from(3, 1 << 20)
    assert shipments is not None
    held.member.message("b", encode_message(Append(2, 2, 1, 0, shipments)), held.now)
    held.hear("c", Heartbeat(3, 1, 0))  # before anybody took what the last message asked for
    assert held.log.frames == frames(1, 1, 1)


FOLLOWING = [
    (frames_are_taken_only_behind_the_one_before, "no_prev_check"),
    (an_acknowledgement_waits_for_the_sync, "ack_before_sync"),
    (an_acknowledgement_is_never_the_end_of_the_log, "ack_log_end"),
    (a_lower_epoch_is_refused, "accept_lower"),
    (an_acknowledgement_waits_for_the_promise, "ack_before_promise"),
    (frames_of_an_older_leader_are_not_taken_any_more, "old_takings_kept"),
]


def test_a_sync_of_an_older_epoch_acknowledges_nothing() -> None:
    held = follower()
    held.hear_append("b", 2, (2, 1), 2, 2)
    held.hear_append("c", 3, (3, 2))
    held.member.written(2, 4, held.now)
    held.look()
    assert held.acknowledged("b") == held.acknowledged("c") == []
    held.sync()
    assert held.acknowledged("c") == [3]
    assert held.acknowledged("b") == []


def test_what_comes_twice_is_acknowledged_again() -> None:
    held = follower()
    held.hear_append("b", 2, (2, 1), 2)
    held.sync()
    held.hear_append("b", 2, (2, 1), 2)
    assert held.acknowledged("b") == [3, 3]
    assert len(held.log.frames) == 3


def test_the_commit_is_what_the_leader_says_as_far_as_it_is_synced() -> None:
    held = follower()
    held.hear_append("b", 2, (2, 1), 2, 2, 2, commit=4)
    assert held.commit() == 0
    held.sync()
    assert held.commit() == 4
    held.hear("b", Heartbeat(2, 2, 99))
    assert held.commit() == 5


def test_a_heartbeat_is_answered_with_its_own_time_and_the_store() -> None:
    held = follower()
    held.hear("b", Heartbeat(2, 777, 0))
    answer = only(held.heard_by("b", HeartbeatAnswer))
    assert isinstance(answer, HeartbeatAnswer)
    assert (answer.sent_us, answer.store_id, answer.epoch) == (777, store("a"), 2)


def test_a_message_of_a_higher_epoch_has_the_register_read() -> None:
    """It says that another leads, and not who of which store counts."""
    held = follower()
    reads = held.reads
    held.hear("c", Heartbeat(3, 1, 0))
    assert (held.promise, held.reads) == (3, reads + 1)
    held.hear("c", Heartbeat(3, 2, 0))
    assert held.reads == reads + 1


def test_a_higher_epoch_is_followed_and_promised() -> None:
    held = follower()
    held.hear("c", Heartbeat(5, 1, 0))
    assert (held.promise, held.out.epoch, held.out.leader) == (5, 5, "c")
    held.hear("b", Heartbeat(2, 2, 0))
    assert [message.epoch for message in held.heard_by("b", RefusedEpoch)] == [5]


def test_a_refusal_tells_of_a_higher_epoch() -> None:
    held = follower()
    reads = held.reads
    held.hear("c", RefusedEpoch(4))
    assert (held.promise, held.reads) == (4, reads + 1)
    held.hear("c", RefusedEpoch(3))
    assert held.promise == 4


def test_a_store_that_refuses_frames_is_asked_again_from_where_it_is() -> None:
    held = follower()
    held.hear_append("b", 2, (2, 1), 2)
    held.sync()
    held.log.frames[2:] = []  # as if the octets were spoilt: the store has not what was sent
    held.hear_append("b", 2, (3, 2), 2)
    answer = only(held.heard_by("b", RunsDiffer))
    assert isinstance(answer, RunsDiffer)
    assert answer.runs == [(1, 1, 2)]


def test_a_store_in_sync_is_never_replaced_by_a_copy() -> None:
    held = follower()
    reads = held.reads
    held.hear("b", CopyOffer(2))
    held.hear("b", CopyGrant(2, store("a")))
    assert (held.copy_from, held.role(), held.reads) == ("", FOLLOWER, reads + 1)
    assert held.heard_by("b", CopyAsk) == []


def test_a_learner_asks_before_its_store_is_replaced() -> None:
    held = follower()
    held.see(value(2, "b", in_sync="bc"))
    held.hear("b", CopyOffer(2))
    asked = only(held.heard_by("b", CopyAsk))
    assert isinstance(asked, CopyAsk)
    assert (asked.store_id, held.copy_from, held.role()) == (store("a"), "", LEARNER)
    held.hear("b", CopyGrant(2, store("a", 7)))  # for a store that it had before
    assert held.copy_from == ""
    held.hear("b", CopyGrant(2, store("a")))
    assert held.copy_from == "b"


def test_an_order_to_rewrite_is_handed_on() -> None:
    held = follower()
    held.member.message("b", encode_message(RewriteOrder(2, 7, {1: [(0, 5)]})), held.now)
    out = held.member.take()
    assert [(each.number, each.wanted) for each in out.rewrites] == [(7, {1: [(0, 5)]})]


def test_messages_for_a_leader_mean_nothing_to_a_follower() -> None:
    held = follower()
    held.hear("b", Acknowledgement(2, 5, store("b")))
    held.hear("b", HeartbeatAnswer(2, 5, store("b")))
    held.pass_time(SECOND // 4)
    assert held.role() == FOLLOWER
