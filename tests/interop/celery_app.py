"""The Celery application that the workers of test_celery.py run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import celery

from tests.waiting import until

FOLDER = Path(os.environ.get("FOREBAY_CELERY_FOLDER", "."))  # where tasks leave traces for the test

app = celery.Celery("interop")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_acks_late=True,
    worker_hijack_root_logger=False,
    result_chord_retry_interval=0.1,
)
app.conf.update(json.loads(os.environ.get("FOREBAY_CELERY_SETTINGS", "{}")))


def trace(name: str, text: object) -> None:
    """Add a line to a file of the test."""
    with (FOLDER / name).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@app.task  # type: ignore[untyped-decorator]
def add(one: int, other: int) -> int:
    """The sum."""
    return one + other


@app.task  # type: ignore[untyped-decorator]
def total(numbers: list[int]) -> int:
    """The sum of a list."""
    return sum(numbers)


@app.task(bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def stubborn(self: Any, successes_after: int) -> int:
    """Fail some times; how often it was tried again."""
    if self.request.retries < successes_after:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@app.task  # type: ignore[untyped-decorator]
def note(name: str, text: object) -> float:
    """Leave a line; the time."""
    trace(name, text)
    return time.time()


@app.task(bind=True)  # type: ignore[untyped-decorator]
def long(self: Any, name: str) -> bool:
    """Run until the test makes a file; whether the message was delivered before."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    trace(name, redelivered)
    until((FOLDER / "go on").exists)
    return redelivered
