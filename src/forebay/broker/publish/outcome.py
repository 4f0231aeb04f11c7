"""The outcome of a publish, a value: a publisher gets it back, and reads it nowhere else."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.message import ACCEPTED, REJECTED, UNROUTABLE
from forebay.queue.queue import Queue

NO_QUEUES: Final[list[Queue]] = []


@final
class PublishOutcome:
    """The outcome of one publish. Nobody changes it.

    status    ACCEPTED, UNROUTABLE or REJECTED
    reason    why the last of those that refused the message did, for people
    queues    that refused the message; none where the broker refused it for the whole route, and nobody has it
    pressing  a queue or MQTT session that has the message and is over its share: its publishers are held back
    """

    def __init__(
        self,
        status: i64,
        reason: str = "",
        queues: list[Queue] = NO_QUEUES,
        pressing: Queue | ClientSession | None = None,
    ) -> None:
        self.status: i64 = status
        self.reason = reason
        self.queues = queues
        self.pressing = pressing

    def pressed(self, pressing: Queue | ClientSession) -> PublishOutcome:
        """Return this outcome of a message that this queue or session has, which is over its share."""
        return PublishOutcome(self.status, self.reason, self.queues, pressing)


# The outcomes of most publishes, made once: a message that is taken costs no object.
TAKEN: Final = PublishOutcome(ACCEPTED)
NO_WAY: Final = PublishOutcome(UNROUTABLE)
NO_ROOM: Final = PublishOutcome(REJECTED, "no room on the disk")
