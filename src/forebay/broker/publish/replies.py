"""Direct reply-to: answers that go from one connection to another without a queue, and never to a disk.

A client that consumes from `amq.rabbitmq.reply-to` gets a name of its own, which nobody can guess; it stands in the
requests that the client publishes, and what is published to it through the default exchange is delivered at the end
of the turn.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.publish.publishing_contract import RepliesContract
from forebay.core.errors import note_half_change
from forebay.log.block import BlockWriter
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery

REPLY_QUEUE: Final = b"amq.rabbitmq.reply-to"
REPLY_PREFIX: Final = b"amq.rabbitmq.reply-to."
REPLIES: Final = -3  # `queue` of consumers of answers
NAME_OCTETS: Final = 24  # of chance in a name
BACKLOG_OCTETS_MAX: Final = 64 << 20  # answers for a connection that takes no more octets for now


@final
class ReplyConsumer:
    """The consumer of what is published to one name.

    backlog  octets given to it since its connection takes no more
    """

    def __init__(self, name: bytes, consumer: Consumer) -> None:
        self.name = name
        self.consumer = consumer
        self.backlog: i64 = 0


@final
class Replies(RepliesContract):
    """All names of a vhost, and the answers of this turn.

    secret  random bytes, of which the names are made
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.by_name: dict[bytes, ReplyConsumer] = {}
        self.by_consumer: dict[int, ReplyConsumer] = {}
        self.writer = BlockWriter()
        self.to: list[ReplyConsumer] = []  # of each record in the writer

    def open(self, id: i64, session_id: i64, channel: i64, tag: bytes) -> ReplyConsumer:
        """A consumer of answers, with a name; `id` is used for no other consumer."""
        chance = blake2b(b"%d %d %d" % (id, session_id, channel), key=self.secret, digest_size=NAME_OCTETS)
        name = REPLY_PREFIX + b"g1." + chance.hexdigest().encode()
        consumer = Consumer(id, REPLIES, 0, session_id, channel, tag, True, UNLIMITED)
        opened = ReplyConsumer(name, consumer)
        self.by_name[name] = opened
        self.by_consumer[int(id)] = opened
        return opened

    def has(self, name: bytes) -> bool:
        """Return whether a consumer of direct replies has this name."""
        return name in self.by_name

    def name_of(self, session_id: i64) -> bytes:
        """Return the name of a session's first consumer of answers; empty if it has none."""
        for opened in self.by_consumer.values():
            if opened.consumer.session_id == session_id:
                return opened.name
        return b""

    def close(self, consumer: Consumer) -> None:
        """Accept no more answers for this consumer; no error where it is closed."""
        try:
            closed = self.by_consumer.pop(int(consumer.id), None)
            if closed is not None:
                del self.by_name[closed.name]
        except Exception as error:
            note_half_change(error)
            raise

    def append(self, name: bytes, format: u8, properties: bytes, body: bytes) -> bool:
        """An answer for this name; False if nobody has it, or its connection has taken too few of them."""
        try:
            to = self.by_name.get(name)
            if to is None:
                return False
            if not to.consumer.paused:
                to.backlog = 0
            elif to.backlog > BACKLOG_OCTETS_MAX:
                return False
            to.backlog += len(properties) + len(body)
            self.writer.append(format, b"", name, properties, body)
            self.to.append(to)
            return True
        except Exception as error:
            note_half_change(error)
            raise

    def dispatch(self, now_us: i64, out: list[Delivery]) -> None:
        """Deliver the turn's answers."""
        if not self.to:
            return
        all_to, self.to = self.to, []
        block = self.writer.seal(0, now_us, False)
        index: i64 = 0
        while index < i64(len(all_to)):
            to = all_to[index]
            end = index + 1
            while end < i64(len(all_to)) and all_to[end] is to:
                end += 1
            if int(to.consumer.id) in self.by_consumer:
                out.append(Delivery(to.consumer, block, index, end - index, None))
            index = end
