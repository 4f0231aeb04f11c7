"""The end of a broker that is told to stop: nothing accepted is lost, and every client is told.

Listeners are closed by then. What was read is decided and written, what is confirmed leaves, each client gets its
protocol's goodbye, and may take `drain_timeout_ms` to read it and to go.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final

from forebay.node.shutdown import say_goodbye, stop_reading
from forebay.server.app import App
from forebay.server.net import Connection

LEAST_S: Final = 2.0  # for which the disk may take to write and to close the files, however hurried the stop
LOOK_S: Final = 0.01  # between two checks whether all clients have left
STAY_US: Final = 500_000  # for which a client may go on sending after it was sent everything, the end too
logger = logging.getLogger("forebay")


async def drain(app: App, hurry: asyncio.Event) -> None:
    """Send every client its goodbye, and close the files.

    hurry  once it is set, nobody is waited for but the disk
    """
    app.leaving = True
    stop_reading(app.broker)
    app.turn()
    await written(app)
    say_goodbye(app.broker)
    app.do(app.node.take())
    app.look()
    await left(app, hurry)
    for connection in list(app.open):
        connection.transport.abort()
        app.broker.lost(connection)
    app.turn()  # the last turn may have been before the last connections went: what they held is noted in this one
    app.vhosts.stop_in_order()
    app.do(app.node.take())
    app.broker.ended = True
    await written(app)  # what the end of the connections has left: queues that go with them
    app.sender.stop()
    app.logins.stop()
    await close_files(app)


async def close_files(app: App) -> None:
    """Close the files on another thread. End the process if the disk takes longer than `drain_timeout_ms`."""
    limit_ms = app.options.drain_timeout_ms
    if app.store.in_flight():
        app.faults.leave_disk(limit_ms)
    app.process.end_commits()
    closing = FileClosing(app)
    ended = app.loop.create_future()
    threading.Thread(target=closing.run, args=(app.loop, ended), name="forebay-close", daemon=True).start()
    try:
        await asyncio.wait_for(ended, disk_limit_s(app))
    except TimeoutError:
        app.faults.leave_disk(limit_ms)


class FileClosing:
    """The end of the work on files, and their closing."""

    def __init__(self, app: App) -> None:
        self.app = app

    def run(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        try:
            self.close()
        except Exception as error:  # noqa: BLE001  the task's boundary: whoever waits decides
            loop.call_soon_threadsafe(ended.set_exception, error)
        else:
            loop.call_soon_threadsafe(ended.set_result, None)

    def close(self) -> None:
        app = self.app
        app.process.end_work()
        app.audit_log.stop()
        app.store.close()
        app.disk.close_all()


async def left(app: App, hurry: asyncio.Event) -> None:
    """Wait until every client has taken its goodbye and gone, or `drain_timeout_ms` is over."""
    limit_s = app.options.drain_timeout_ms / 1000
    deadline = app.loop.time() + limit_s
    while any(is_awaited(connection, app.now_us()) for connection in app.open) and not hurry.is_set():
        if app.loop.time() >= deadline:
            logger.warning("%d clients have not left within drain_timeout_ms=%d", len(app.open), limit_s * 1000)
            return
        await asyncio.sleep(LOOK_S)


def is_awaited(connection: Connection, now_us: int) -> bool:
    """Return whether a client has still to take something, or has taken everything only just now."""
    return not connection.is_served() or now_us - connection.closing_us <= STAY_US


async def written(app: App) -> None:
    """Wait until everything noted is on the disk and no commit on its way, or the time of `disk_limit_s` is over."""
    app.idle.clear()
    app.flush()
    if app.store.in_flight():
        try:
            await asyncio.wait_for(app.idle.wait(), disk_limit_s(app))
        except TimeoutError:
            logger.warning("drain took longer than drain_timeout_ms=%d", app.options.drain_timeout_ms)


def disk_limit_s(app: App) -> float:
    """Return how many seconds the stop waits for the disk, which may be busy however hurried the stop is."""
    return max(LEAST_S, app.options.drain_timeout_ms / 1000)
