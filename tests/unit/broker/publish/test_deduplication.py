"""What has been taken before: numbers, keys, addresses, the window, the limit, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.internal_log import DEDUPLICATION_LOG
from forebay.broker.publish.deduplication import (
    SEQUENCE_MAX,
    Deduplication,
    Identity,
    address_of,
    identity_of,
    unowned_hash,
)
from forebay.core.errors import INVALID, RequestError
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.store import Store
from tests.stores import SMALL, SmallDisk, TestClock

WINDOW_MS = 1000
AT = address_of(b"amq.direct", b"key")


class Taking:
    """On a store on real files; turns end by hand."""

    def __init__(self, folder: Path, keys_max: int = 100, clock: TestClock | None = None) -> None:
        self.clock = clock or TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.seen = Deduplication(self.store, WINDOW_MS, keys_max)
        for entry in entries:
            assert (entry.kind, entry.queue) == (INTERNAL, DEDUPLICATION_LOG)
            self.seen.restore(entry.group, entry.payload)
        self.seen.recovered(self.clock.us)
        self.store.start(self.seen.checkpoint())

    def take(self, identity: Identity, address: bytes = AT) -> bool:
        """Publish; whether it was taken."""
        if self.seen.is_known(address, identity, self.clock.us):
            return False
        self.seen.remember(identity)
        return True

    def turn(self) -> bool:
        """End a turn; whether it had to be written."""
        self.seen.end_turn(self.clock.us)
        commit = self.store.commit()
        if commit is None:
            return False
        commit.run()
        self.store.synced(commit)
        return True

    def crash(self, keys_max: int = 100) -> Taking:
        self.disk.close_all()
        return Taking(Path(self.disk.root), keys_max, self.clock)


def number(sequence: int, producer: bytes = b"p") -> Identity:
    return Identity(producer, sequence, b"")


def key(name: bytes) -> Identity:
    return Identity(b"", 0, name)


def test_numbers_grow_and_may_leave_gaps(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    taken = [sequence for sequence in (3, 3, 1, 4, 9, 4, 9, SEQUENCE_MAX, SEQUENCE_MAX) if rig.take(number(sequence))]
    assert taken == [3, 4, 9, SEQUENCE_MAX]
    assert rig.take(number(0, b"other"))
    assert not rig.take(number(0, b"other"))


def test_producers_and_keys_of_another_user_are_other_ones(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    for user in (b"", b"ada", b"bob", b"bo"):
        mine = Identity(b"p", SEQUENCE_MAX, b"k")
        mine.user = user
        assert rig.take(mine)
        assert not rig.take(mine)


def test_what_was_stored_before_it_had_owners_is_known_for_the_window(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    rig.seen.last[unowned_hash(b"p", AT, b"p")] = 7
    rig.seen.take(unowned_hash(b"p", AT, b"p"))
    rig.seen.take(unowned_hash(b"k", AT, b"k"))
    rig.turn()
    again = rig.crash()
    for identity in (number(7), key(b"k")):
        identity.user = b"ada"
        assert not again.take(identity)
    more = number(8)
    more.user = b"ada"
    assert again.take(more)
    again.clock.us += WINDOW_MS * 1000
    first = key(b"k")
    first.user = b"ada"
    assert again.take(first)


def test_keys_addresses_and_producers_do_not_mix(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    assert rig.take(key(b"p"))
    assert rig.take(number(1))
    assert rig.take(key(b"p"), address_of(b"amq.direct", b"other"))
    assert rig.take(key(b"yp"), address_of(b"amq.direct", b"ke"))  # not the same octets in a row
    assert not rig.take(key(b"p"))
    assert not rig.take(number(1))


def test_either_name_makes_a_duplicate(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    assert rig.take(Identity(b"p", 5, b"k"))
    assert not rig.take(Identity(b"p", 6, b"k"))
    assert not rig.take(Identity(b"p", 5, b"l"))
    assert rig.take(Identity(b"p", 6, b"l"))


def test_a_restart_finds_what_a_turn_has_written(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    rig.take(number(1))
    rig.take(key(b"k"))
    assert rig.turn()
    rig.take(number(2))
    assert rig.turn()
    rig.take(number(3))  # never written
    rig = rig.crash()
    assert not rig.take(key(b"k"))
    assert not rig.take(number(2))
    assert rig.take(number(3))


def test_a_duplicate_waits_for_what_it_repeats(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    rig.take(number(1))
    rig.turn()
    assert not rig.turn()  # nothing to say
    rig.take(number(1))
    assert rig.turn()  # its publisher is to be told only what is on the disk


def test_the_window_is_counted_from_the_last_message(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    rig.take(number(1))
    rig.take(key(b"k"))
    rig.turn()
    rig.clock.us += WINDOW_MS * 600
    rig.take(number(2))
    rig.turn()
    rig.clock.us += WINDOW_MS * 600
    assert rig.take(key(b"k"))
    assert not rig.take(number(2))
    rig.turn()
    rig.clock.us += WINDOW_MS * 1001
    rig.turn()
    assert rig.seen.count() == 0
    assert rig.seen.log.start == rig.seen.log.end
    assert rig.take(number(1))


def test_recovery_passes_over_what_is_too_old(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    rig.take(key(b"old"))
    rig.turn()
    rig.clock.us += WINDOW_MS * 700
    rig.take(key(b"new"))
    rig.turn()
    rig.clock.us += WINDOW_MS * 700
    rig = rig.crash()
    assert rig.seen.count() == 1
    assert rig.take(key(b"old"))
    assert not rig.take(key(b"new"))
    rig.clock.us += WINDOW_MS * 400
    assert rig.take(key(b"new"))


@pytest.mark.parametrize("crash", [False, True])
def test_beyond_the_limit_what_came_first_is_forgotten(tmp_path: Path, crash: bool) -> None:
    rig = Taking(tmp_path, 2)
    for name in (b"a", b"b"):
        rig.take(key(name))
    rig.turn()
    rig.take(number(1))
    rig.turn()
    if crash:
        rig = rig.crash(2)
    assert rig.seen.count() == 2
    assert not rig.take(key(b"b"))
    assert rig.take(key(b"a"))  # b goes
    assert not rig.take(number(1))
    assert rig.take(key(b"b"))


def test_a_turn_may_take_more_than_the_limit(tmp_path: Path) -> None:
    rig = Taking(tmp_path, 2)
    for name in (b"a", b"b", b"c", b"a", b"d"):
        assert rig.take(key(name))
    rig.turn()
    assert rig.seen.count() == 2
    rig = rig.crash(2)
    assert not rig.take(key(b"a"))
    assert not rig.take(key(b"d"))


def test_only_what_holds_is_live(tmp_path: Path) -> None:
    rig = Taking(tmp_path)
    for sequence in range(4):
        rig.take(number(sequence))
        rig.turn()
    rig.take(key(b"k"))
    rig.turn()
    assert rig.seen.needed(0, 5) == [(3, 5)]
    assert rig.seen.needed(0, 4) == [(3, 4)]
    assert rig.seen.needed(0, 3) == []


def test_headers_that_say_who_it_is() -> None:
    assert identity_of(None, None, None) is None
    for sequence in (7, "7"):
        found = identity_of("p", sequence, "k")
        assert found is not None
        assert (found.producer, found.sequence, found.key) == (b"p", 7, b"k")
    wrong: list[tuple[object, object, object]] = [
        ("p", None, None),
        (None, 1, None),
        ("p", "1.5", None),
        ("p", True, None),
        ("p", -1, None),
        ("p", 1 << 63, None),
        ("", 1, None),
        (5, 1, None),
        (None, None, ""),
        (None, None, "k" * 256),
    ]
    for producer, number_given, name in wrong:
        with pytest.raises(RequestError) as caught:
            identity_of(producer, number_given, name)
        assert caught.value.reason == INVALID
