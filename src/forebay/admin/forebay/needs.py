"""The leave that each operation takes over HTTP; by the block protocol it is administrators'."""

from __future__ import annotations

from typing import Final

ENTER: Final = "enter"  # a tag, and leave to enter the vhost
READ_QUEUE: Final = "read"  # besides, read on the queue, which must not be another connection's own
MOVE: Final = "move"  # besides, leave to publish where the messages go
CONFIGURE_QUEUE: Final = "configure"  # besides, configure on the queue, which must not be another connection's own
ADMINISTER: Final = "administer"
NEEDS: Final = {
    "consumer.list": ENTER,
    "delayed.list": ENTER,
    "dlq.list": ENTER,
    "group.list": ENTER,
    "lease.list": ENTER,
    "queue.list": ENTER,
    "queue.show": ENTER,
    "queue.unsettled": ENTER,
    "retained.list": ENTER,
    "session.list": ENTER,
    "session.show": ENTER,
    "stream.offset": ENTER,
    "stream.show": ENTER,
    "subscription.list": ENTER,
    "transaction.list": ENTER,
    "dlq.purge": READ_QUEUE,
    "dlq.show": READ_QUEUE,
    "group.commit": READ_QUEUE,
    "group.seek": READ_QUEUE,
    "lease.release": READ_QUEUE,
    "message.explain": READ_QUEUE,
    "message.history": READ_QUEUE,
    "message.show": READ_QUEUE,
    "queue.discard": READ_QUEUE,
    "queue.messages": READ_QUEUE,
    "queue.purge": READ_QUEUE,
    "queue.move": MOVE,
    "group.delete": CONFIGURE_QUEUE,
}
TOLD: Final = {
    ENTER: "who has a tag and may enter the vhost",
    READ_QUEUE: "who has a tag and may read the queue, unless it is another connection's own",
    MOVE: "who has a tag, may read the queue, unless it is another connection's own, and may publish where they go",
    CONFIGURE_QUEUE: "who has a tag and may configure the queue, unless it is another connection's own",
    ADMINISTER: "administrators",
}


def told(name: str) -> str:
    """The callers that may run an operation over HTTP, for its page."""
    need = NEEDS.get(name, ADMINISTER)
    return TOLD[need] if need == ADMINISTER else f"{TOLD[need]}; administrators"
