"""Names for answers: nobody's twice, closed with their consumer, and bounded where nobody reads."""

from __future__ import annotations

from mypy_extensions import u8

from forebay.broker.publish import replies as module
from forebay.broker.publish.replies import BACKLOG_OCTETS_MAX, REPLY_PREFIX, Replies
from forebay.core.message import AMQP091
from forebay.queue.leases.lease import Delivery

FORMAT = u8(AMQP091)


def made(secret: bytes = b"secret") -> Replies:
    return Replies(secret)


def handed_out(replies: Replies) -> list[tuple[int, bytes]]:
    out: list[Delivery] = []
    replies.dispatch(1, out)
    found = []
    for each in out:
        assert each.lease is None
        found += [(int(each.consumer.id), each.block.body(at)) for at in range(each.index, each.index + each.count)]
    return found


def test_answers_go_to_their_names_in_order() -> None:
    replies = made()
    one, two = replies.open(1, 7, 1, b"t"), replies.open(2, 7, 2, b"t")
    for name, body in ((one.name, b"a"), (one.name, b"b"), (two.name, b"c"), (one.name, b"d")):
        assert replies.append(name, FORMAT, b"\0\0", body)
    assert handed_out(replies) == [(1, b"a"), (1, b"b"), (2, b"c"), (1, b"d")]
    assert handed_out(replies) == []


def test_names_are_made_of_the_secret() -> None:
    names = {made(secret).open(id, 1, 1, b"t").name for secret in (b"s", b"t") for id in (1, 2)}
    assert len(names) == 4
    for name in names:
        assert name.startswith(REPLY_PREFIX)
        assert len(name) <= 255


def test_a_closed_name_is_nobodys() -> None:
    replies = made()
    one = replies.open(1, 7, 1, b"t")
    assert replies.append(one.name, FORMAT, b"\0\0", b"on its way")
    replies.close(one.consumer)
    replies.close(one.consumer)
    assert not replies.append(one.name, FORMAT, b"\0\0", b"late")
    assert handed_out(replies) == []
    assert module.REPLY_QUEUE not in replies.by_name


def test_who_reads_nothing_does_not_fill_the_memory() -> None:
    replies = made()
    one = replies.open(1, 7, 1, b"t")
    body = bytes(1 << 20)
    one.consumer.paused = True
    taken = 0
    while replies.append(one.name, FORMAT, b"\0\0", body):
        taken += 1
        replies.dispatch(1, [])
    assert BACKLOG_OCTETS_MAX >> 20 <= taken <= (BACKLOG_OCTETS_MAX >> 20) + 1
    one.consumer.paused = False
    assert replies.append(one.name, FORMAT, b"\0\0", body)
