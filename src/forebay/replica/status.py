"""The status of a member and, if it leads, of the other members, for people."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.replica.leader.leading import Leading
from forebay.replica.outcome import FOLLOWER, LEADER, LEARNER
from forebay.replica.standing import Standing

US_PER_MS: Final = 1_000


@final
class FollowerStatus:
    """Another member, as its leader knows it.

    role           FOLLOWER or LEARNER
    synced         LSN of the last frame that it has acknowledged; 0 if none in this epoch
    frames_behind  the number of frames that it lacks; -1 if unknown
    ms_behind      time for which it has lacked frames
    silent_ms      time since the last heartbeat that it has answered
    why            the reason why it is not in sync, for people; "" if it is in sync
    """

    def __init__(
        self, name: str, role: str, synced: i64, frames_behind: i64, ms_behind: i64, silent_ms: i64, why: str
    ) -> None:
        self.name = name
        self.role = role
        self.synced: i64 = synced
        self.frames_behind: i64 = frames_behind
        self.ms_behind: i64 = ms_behind
        self.silent_ms: i64 = silent_ms
        self.why = why


@final
class MemberStatus:
    """The status of one member.

    end      LSN of its last frame
    in_sync  names of the in-sync members in the register as last seen
    waits    the reason why nothing is committed just now, for people; "" if frames are committed
    others   the other members, if this one leads
    """

    def __init__(self, name: str, role: str, epoch: i64, leader: str) -> None:
        self.name = name
        self.role = role
        self.epoch: i64 = epoch
        self.leader = leader
        self.commit: i64 = 0
        self.end: i64 = 0
        self.min_in_sync = 0
        self.in_sync: list[str] = []
        self.waits = ""
        self.others: list[FollowerStatus] = []


def status_of(standing: Standing, role: str, leader: str, leading: Leading | None, now: i64) -> MemberStatus:
    """Return the status of a member at the time `now`."""
    epoch = standing.promised if leading is None else standing.epoch
    found = MemberStatus(standing.name, role, epoch, standing.name if role == LEADER else leader)
    found.commit = standing.commit
    found.end = i64(standing.log.end()[1])
    view = standing.view
    if view is None:
        found.waits = "the register has not been seen yet"
        return found
    found.min_in_sync = view.value.min_in_sync
    found.in_sync = sorted(view.value.in_sync)
    if leading is not None:
        found.others = [follower_status(leading, node, now) for node in standing.others()]
        found.waits = waits_for(leading, found)
    return found


def follower_status(leading: Leading, node: str, now: i64) -> FollowerStatus:
    followers = leading.followers
    entry = followers.entry(node)
    got = followers.got(entry)
    silent = (now - followers.answered[entry]) if entry in followers.answered else now - followers.began
    silent = min(silent, now - followers.began)
    why = "" if entry in leading.in_sync.stores else why_not_in_sync(leading, node, now)
    return FollowerStatus(
        node,
        LEARNER if why else FOLLOWER,
        got,
        followers.end - got if got > 0 else -1,
        followers.lag_us(got, now) // US_PER_MS,
        silent // US_PER_MS,
        why,
    )


def why_not_in_sync(leading: Leading, node: str, now: i64) -> str:
    followers = leading.followers
    entry = followers.entry(node)
    if entry not in followers.answered:
        return "has not been heard since this leader began"
    if now - followers.answered[entry] > leading.standing.settings.put_out_us:
        return "does not answer"
    if node in leading.shipping.copies or leading.shipping.window(node, now).needs_copy:
        return "copies the files"
    if not followers.is_alive(entry, now):
        return "makes no progress"
    if entry in leading.in_sync.joining:
        return "joins"
    if not leading.promises.are_over(now):
        return "waits for the lease of the leader before"
    if not leading.shipping.is_near(node, now):
        return "catches up"
    return "is about to join"


def waits_for(leading: Leading, found: MemberStatus) -> str:
    """Return why frames of this leader are not committed, or "" if all are."""
    if len(found.in_sync) < found.min_in_sync:
        return f"in sync are {len(found.in_sync)}, min_in_sync is {found.min_in_sync}"
    if found.commit >= found.end:
        return ""
    least = leading.own
    slowest = "its own disk"
    for entry in sorted(leading.in_sync.counted()):
        if entry[0] != found.name and leading.followers.got(entry) < least:
            least = leading.followers.got(entry)
            slowest = f"node {entry[0]!r}"
    return f"waits for {slowest}, {found.end - least} frames behind"
