"""The times and bounds that all members of a group go by."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.units import US_PER_MS


@final
class ReplicaSettings:
    """Microseconds, octets and frames; the same at every member of a group.

    silence_us         a member may take over from a leader that it has not heard for so long
    lease_us           the leader delivers while all answered a heartbeat sent within it; with clocks that differ by 2 %
                       it has to be below 0.96 of `silence_us`
    put_out_us         a member that has not answered for so long is put out of the in-sync set
    lag_us             the same of one that is behind and makes no progress
    heartbeat_us       between two heartbeats
    rank_us            each further member waits so much longer before it takes over
    read_us            between two reads of the register
    change_us          after which the outcome of a change counts as unknown
    join_us            a member that joins has so long to sync what was committed
    rejoin_us          and waits so long before it tries again
    join_frames_max    it may be so many frames behind when it begins to join
    join_octets_max    and have so many octets on their way to it
    mismatch_us        of several mismatches of one member within it, one is answered
    append_octets_max  of frames in one message, unless one frame is longer
    window_octets_max  on their way to one member
    window_frames_max  the same
    learner_octets_s   of frames a second to a member that is not in sync; more where the others get more
    busy_octets_s      the same while the leader has all that it can do
    learner_burst      octets of frames in one go to a member that is far behind: they are read from files
    members_max        nodes that keep the data
    replace_us         a member that is gone for so long gives its place to a node that has none; 0: never
    min_in_sync        goes back to this once so many are in sync; 0 to leave it
    preferred          the node that should lead; "" for any
    preferred_us       it has been in sync for so long before it is handed over to
    is_async           frames are confirmed once the leader's own disk has them
    """

    def __init__(self) -> None:
        self.silence_us: i64 = 1000 * US_PER_MS
        self.lease_us: i64 = 900 * US_PER_MS
        self.put_out_us: i64 = 600 * US_PER_MS
        self.lag_us: i64 = 1000 * US_PER_MS
        self.heartbeat_us: i64 = 200 * US_PER_MS
        self.rank_us: i64 = 50 * US_PER_MS
        self.read_us: i64 = 500 * US_PER_MS
        self.change_us: i64 = 300 * US_PER_MS
        self.join_us: i64 = 300 * US_PER_MS
        self.rejoin_us: i64 = 500 * US_PER_MS
        self.join_frames_max: i64 = 256
        self.join_octets_max: i64 = 8 << 20
        self.mismatch_us: i64 = 20 * US_PER_MS
        self.append_octets_max: i64 = 1 << 20
        self.window_octets_max: i64 = 16 << 20
        self.window_frames_max: i64 = 4096
        self.learner_octets_s: i64 = 64 << 20
        self.busy_octets_s: i64 = 16 << 20
        self.learner_burst: i64 = 2 << 20
        self.members_max = 3
        self.replace_us: i64 = 600_000 * US_PER_MS
        self.min_in_sync = 0
        self.preferred = ""
        self.preferred_us: i64 = 30_000 * US_PER_MS
        self.is_async = False
