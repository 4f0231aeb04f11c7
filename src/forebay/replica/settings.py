"""The timeouts and limits of replication, equal on all members of a group."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.units import US_PER_MS


@final
class ReplicaSettings:
    """The settings of replication, in microseconds, bytes and frames. They are the same at every member of a group.

    silence_us         silence of the leader after which a member may take over
    lease_us           age of the heartbeat up to which an answer lets the leader deliver. With clocks that differ by 2
                       %, keep it below 0.96 of `silence_us`
    put_out_us         time without an answer after which a member leaves the in-sync set
    lag_us             time without progress after which a member that is behind leaves the in-sync set
    heartbeat_us       interval between two heartbeats
    rank_us            additional wait before takeover for each rank of a member
    read_us            interval between two reads of the register
    change_us          time after which the outcome of a change of the register counts as unknown
    join_us            time a joining member has to sync what was committed
    rejoin_us          wait before a member that failed to join tries again
    join_frames_max    frames a member may be behind when it begins to join
    join_octets_max    bytes that may be in flight to a member when it begins to join
    mismatch_us        interval in which only one mismatch of a member is answered
    append_octets_max  bytes of frames in one message, unless one frame is longer
    window_octets_max  bytes in flight to one member
    window_frames_max  frames in flight to one member
    learner_octets_s   bytes of frames a second to a member that is not in sync; more if the in-sync members get more
    busy_octets_s      the value used for `learner_octets_s` while the leader is busy
    learner_burst      bytes of frames in one go to a member that is far behind: they are read from files
    members_max        the number of nodes that keep the data
    replace_us         time after which an absent member is replaced by a node that is not a member; 0 for never
    min_in_sync        the number of in-sync members to restore in the register once so many are in sync; 0 to leave it
    preferred          the node that should lead; "" for any
    preferred_us       time the preferred node has been in sync before it is handed leadership
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
