"""The declaration of a queue, and the check whether another declaration is equivalent."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import LOCKED, PRECONDITION, RequestError
from forebay.core.option_names import CLASSIC_TYPE, STREAM_TYPE
from forebay.queue.declaration.arguments import (
    FOREIGN,
    KNOWN,
    RETENTIONS,
    SETTINGS,
    check_arguments,
    check_fairness,
    check_names,
    check_queue_type,
    invalid,
    type_bit,
)
from forebay.queue.declaration.last_value_arguments import check_last_value_arguments
from forebay.routing.exchange import frozen, received, truth


@final
class QueueSpec:
    """A queue's declaration, checked by `check_declaration`.

    arguments      as the client gave them, for the equivalence check and for listing
    type           "classic", "quorum" or "stream"
    visibility_ms  duration of a lease, in milliseconds
    """

    def __init__(
        self, durable: bool, auto_delete: bool, exclusive: bool, arguments: dict[str, object], visibility_ms: i64
    ) -> None:
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive = exclusive
        self.arguments = arguments
        self.type = check_queue_type(arguments, "queue")
        self.stream = self.type == STREAM_TYPE
        asked = arguments.get("x-visibility-timeout")
        self.visibility_ms: i64 = asked if isinstance(asked, int) else visibility_ms

    def check_equivalent(
        self,
        where: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        any_type: bool,
    ) -> None:
        """Raise RequestError, in RabbitMQ's words, if a redeclaration differs from this declaration.

        where     "queue 'q' in vhost '/'"
        any_type  accept another type of queue; its arguments are compared all the same
        """
        check_names(arguments, KNOWN, FOREIGN, where)
        if exclusive != self.exclusive:
            raise locked(where)
        if durable != self.durable:
            raise inequivalent("durable", where, f"'{truth(durable)}'", f"'{truth(self.durable)}'")
        if auto_delete != self.auto_delete:
            raise inequivalent("auto_delete", where, f"'{truth(auto_delete)}'", f"'{truth(self.auto_delete)}'")
        bit = type_bit(self.type)
        for setting in SETTINGS:
            if setting.types & bit:
                asked = arguments.get(setting.argument)
                current = self.arguments.get(setting.argument)
                if frozen(asked) != frozen(current):
                    raise inequivalent(setting.argument, where, received(asked, current), received(current, asked))
        wanted = arguments.get("x-queue-type", CLASSIC_TYPE)
        if wanted != self.type and not any_type:
            raise inequivalent("x-queue-type", where, received(wanted, self.type), received(self.type, wanted))


def check_declaration(
    where: str, server_named: bool, durable: bool, exclusive: bool, auto_delete: bool, arguments: dict[str, object]
) -> None:
    """Raise RequestError, in RabbitMQ's words, unless a queue can be created from this declaration.

    where  "queue 'q' in vhost '/'"
    """
    check_names(arguments, KNOWN, FOREIGN, where)
    queue_type = check_queue_type(arguments, where)
    if server_named and queue_type != CLASSIC_TYPE:
        raise RequestError(PRECONDITION, f"Cannot declare a server-named queue for type rabbit_{queue_type}_queue")
    check_arguments(queue_type, arguments, where)
    check_fairness(arguments, where)
    for key in RETENTIONS:
        if "x-" + key in arguments and (exclusive or not durable):
            raise invalid("x-" + key, where, "only a durable queue that is not exclusive retains what was settled")
    check_last_value_arguments(where, arguments)
    if queue_type != CLASSIC_TYPE:
        wrong = "auto-delete" if auto_delete else "exclusive-owner" if exclusive else "" if durable else "non-durable"
        if wrong:
            raise RequestError(PRECONDITION, f"invalid property '{wrong}' for {where}")


def inequivalent(what: str, where: str, asked: str, current: str) -> RequestError:
    return RequestError(
        PRECONDITION, f"inequivalent arg '{what}' for {where}: received {asked} but current is {current}"
    )


def locked(where: str) -> RequestError:
    """Return the error for a queue exclusive to another connection, or declared with another `exclusive`."""
    return RequestError(
        LOCKED,
        f"cannot obtain exclusive access to locked {where}. It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration.",
    )
