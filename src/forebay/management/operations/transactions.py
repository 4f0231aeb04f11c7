"""Operations on the transactions of sinks."""

from __future__ import annotations

from functools import partial

from forebay.broker.publish.staging import CommittedBatch, Staged, Staging
from forebay.management.control import PAGE, VHOST, Arguments, Control, operation, page

COMMITTED = "committed"
PUBLISHING = "publishing"


@operation("transaction.list", VHOST, *PAGE)
def list_transactions(control: Control, given: Arguments) -> dict[str, object]:
    """The queries that publish to a vhost in transactions: the last batch of each, and what waits for a commit."""
    staging = control.vhost(given).staging
    names = sorted({*staging.last, *(query for query, _ in staging.staged)})
    return page(given, [partial(transaction_facts, staging, name) for name in names])


def transaction_facts(staging: Staging, query: str) -> dict[str, object]:
    """The last batch is -1, and the state empty, where none is committed; batches that are staged are listed."""
    last = staging.last.get(query)
    staged = [(batch, each) for (name, batch), each in sorted(staging.staged.items()) if name == query]
    return {
        "query": query,
        "batch": int(staging.last_batch(query)),
        "state": "" if last is None else state_of(last),
        "rows": 0 if last is None else int(last.rows),
        "unroutable": 0 if last is None else int(last.unroutable),
        "staged": [staged_facts(batch, each) for batch, each in staged],
    }


def state_of(commit: CommittedBatch) -> str:
    """True if all rows of a commit are published, or some are on their way."""
    return COMMITTED if commit.finished else PUBLISHING


def staged_facts(batch: int, staged: Staged) -> dict[str, object]:
    return {
        "batch": batch,
        "parts": len(staged.parts),
        "rows": int(staged.rows()),
        "octets": int(staged.octets()),
    }
