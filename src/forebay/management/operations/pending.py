"""Operations on what is not published yet: messages that wait for their time, and the transactions of sinks."""

from __future__ import annotations

from functools import partial

from forebay.broker.catalog.owned_names import name_in, owner_in
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.staging import CommittedBatch, Staged, Staging
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.core.message import ACCEPTED, REJECTED
from forebay.core.units import US_PER_MS
from forebay.management.arguments import octets
from forebay.management.control import Control, operation, page
from forebay.management.needs import ENTER
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.groups import (
    DelayedCancelRequest,
    DelayedFields,
    DelayedListRequest,
    DelayedPublishRequest,
    RoutedAnswer,
    StagedFields,
    TransactionFields,
    TransactionListRequest,
)
from forebay.routing.exchange import text

# ---- delayed messages


@operation("delayed.list", need=ENTER)
def list_delayed(control: Control, given: DelayedListRequest) -> ListPage[DelayedFields]:
    """List the delayed messages of a vhost, in the order in which they will be published."""
    delayed = control.vhost(given).delayed
    times = sorted(each for each in delayed.times if each[1] in delayed.waiting)
    return page(given, [partial(delayed_fields, delayed, due_us, offset) for due_us, offset in times])


@operation("delayed.cancel", changes=True)
def cancel_delayed(control: Control, given: DelayedCancelRequest) -> EmptyAnswer:
    """Cancel a delayed message: the broker does not publish it."""
    if not control.vhost(given).delayed.cancel(octets(given.name)):
        raise RequestError(NOT_FOUND, f"name: no message waits under {given.name!r}")
    return {}


@operation("delayed.publish", changes=True)
def publish_delayed(control: Control, given: DelayedPublishRequest) -> RoutedAnswer:
    """Publish a delayed message at once; `routed` is true if a queue or subscriber got it.

    A message that recurs is published once more, and keeps its times.
    """
    vhost = control.vhost(given)
    message = vhost.delayed.find(octets(given.name))
    if message is None:
        raise RequestError(NOT_FOUND, f"name: no message waits under {given.name!r}")
    outcome = vhost.mover.publish_due(message)
    if outcome.status == REJECTED:
        raise RequestError(REFUSED, f"name: {given.name!r} waits on: {outcome.reason}")
    if not message.recurrence:
        vhost.delayed.leave(int(message.offset))
    return {"routed": outcome.status == ACCEPTED}


def delayed_fields(delayed: Delayed, due_us: int, offset: int) -> DelayedFields:
    message = delayed.read(offset)
    expression, _, zone = text(message.recurrence).partition("\0")
    return {
        "number": offset,
        "key": text(message.key),
        "due_ms": due_us // US_PER_MS,
        "exchange": text(message.exchange),
        "topic": text(message.topic),
        "octets": len(message.body),
        "cron": expression,
        "time_zone": zone,
    }


# ---- transactions


COMMITTED = "committed"
PUBLISHING = "publishing"


@operation("transaction.list", need=ENTER)
def list_transactions(control: Control, given: TransactionListRequest) -> ListPage[TransactionFields]:
    """List the Spark queries that publish to a vhost in transactions, with each one's last batch and staged rows."""
    staging = control.vhost(given).staging
    names = sorted({*staging.last, *(query for query, _ in staging.staged)})
    return page(given, [partial(transaction_fields, staging, name) for name in names])


def transaction_fields(staging: Staging, query: str) -> TransactionFields:
    """Return the fields of a query. If none is committed, `batch` is -1 and `state` "". Lists staged batches."""
    last = staging.last.get(query)
    staged = [(batch, each) for (name, batch), each in sorted(staging.staged.items()) if name == query]
    return {
        "query": name_in(query),
        "user": owner_in(query) or None,
        "batch": int(staging.last_batch(query)),
        "state": "" if last is None else state_of(last),
        "rows": 0 if last is None else int(last.rows),
        "unroutable": 0 if last is None else int(last.unroutable),
        "staged": [staged_fields(batch, each) for batch, each in staged],
    }


def state_of(commit: CommittedBatch) -> str:
    """Return the state of a commit: COMMITTED if all its rows are published, else PUBLISHING."""
    return COMMITTED if commit.finished else PUBLISHING


def staged_fields(batch: int, staged: Staged) -> StagedFields:
    return {
        "batch": batch,
        "parts": len(staged.parts),
        "rows": int(staged.rows()),
        "octets": int(staged.octets()),
    }
