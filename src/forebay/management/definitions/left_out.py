"""The parts of a definitions file that cannot be in force here, and what an entry is without them.

Another broker's running configuration is no typing error: what can be imported is, and everything else is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.nearest import slip_of

MAY_LOSE: Final = "messages may be lost, or stay"
# Arguments and keys of policies by which messages are kept, moved, refused or dropped.
ABOUT_LOSS: Final = frozenset(
    (
        *("dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "alternate-exchange", "overflow"),
        *("max-length", "max-length-bytes", "max-age", "message-ttl", "expires", "delivery-limit"),
        *("federation-upstream", "federation-upstream-set"),
    )
)
PREFIX: Final = "x-"
NOT_IN_FORCE: Final = "nothing here puts it in force"
Arguments = dict[str, object]
Check = Callable[[Arguments], object]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One part of a file that was not imported, or is kept without an effect.

    entry     as errors name it: "queues[3] 'orders'"
    field     the part of the entry, such as "arguments.x-odd"; "" for the whole entry
    reason    with the nearest known name
    may_lose  RabbitMQ keeps, moves or drops messages by this part, and this broker does not
    """

    entry: str
    field: str
    reason: str
    may_lose: bool = False

    def fields(self) -> dict[str, object]:
        """Return the part as answers in JSON have it."""
        return {"entry": self.entry, "field": self.field, "reason": self.reason, "may_lose_messages": self.may_lose}

    def text(self) -> str:
        """Return the entry, its field and the reason."""
        return ": ".join(filter(None, (self.entry, self.field, self.reason)))

    def line(self) -> str:
        """Return the part as one line for people, which says where messages may be lost."""
        return f"{MAY_LOSE}: {self.text()}" if self.may_lose else self.text()


def in_order(parts: Iterable[LeftOut]) -> list[LeftOut]:
    """Return the parts, those first by which messages may be lost."""
    return sorted(parts, key=lambda part: not part.may_lose)


def refusal_of(faults: list[str], left_out: list[LeftOut], strict: bool) -> RequestError | None:
    """Return the error that names everything for which a file is refused as a whole, or None.

    faults  of entries that are none of a definitions file
    strict  parts that cannot be in force are reasons as well
    """
    lines = [*faults, *(part.line() for part in in_order(left_out))] if strict else faults
    return RequestError(INVALID, "; ".join(lines)) if lines else None


def is_about_loss(name: str) -> bool:
    """Return whether an argument, or the key of a policy, keeps, moves or drops messages, or is misspelt as such."""
    key = name.removeprefix(PREFIX)
    return key in ABOUT_LOSS or slip_of(key, ABOUT_LOSS) != ""


def unknown_reason(name: str, known: Iterable[str]) -> str:
    """Return the reason why an unknown name is left out, with the nearest known name if one is near."""
    meant = slip_of(name, known)
    return f"{NOT_IN_FORCE}; did you mean {meant}?" if meant else NOT_IN_FORCE


def fitting(
    arguments: Mapping[str, object], known: Collection[str], base: str, check: Check
) -> tuple[Arguments, dict[str, str]]:
    """Return the arguments that can be in force together, and the reasons why each of the others cannot.

    known   names of arguments that are in force
    base    the argument without which nothing can be said of the others, such as the type of queue
    check   raises RequestError where some arguments cannot be together
    raises  RequestError: nothing can be made even without the others
    """
    try:
        check(dict(arguments))
    except RequestError:
        pass
    else:
        return dict(arguments), {}
    taken = {name: value for name, value in arguments.items() if name == base}
    check(dict(taken))
    reasons = {name: unknown_reason(name, known) for name in arguments if name not in known}
    pending = [name for name in arguments if name not in reasons and name not in taken]
    while pending:
        refused: list[str] = []
        for name in pending:
            try:
                check({**taken, name: arguments[name]})
            except RequestError as error:
                reasons[name] = error.text
                refused.append(name)
            else:
                taken[name] = arguments[name]
                reasons.pop(name, None)
        if len(refused) == len(pending):
            break
        pending = refused
    return {name: arguments[name] for name in arguments if name in taken}, reasons
