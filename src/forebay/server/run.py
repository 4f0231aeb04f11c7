"""One broker from its start to its end: listeners, services, signals."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from forebay.core.errors import CorruptFile, OptionError, RequestError, StorageError
from forebay.core.options import Options
from forebay.server.app import TICK_S, App
from forebay.server.config.checks import check_options
from forebay.server.config.reload import Reloader
from forebay.server.config.sources import Loaded, OptionSource, placed
from forebay.server.drain import drain
from forebay.server.listen import endpoints, make_protocol
from forebay.server.system.heap import tune_collector
from forebay.server.system.notify import READY, STOPPING, WATCHDOG, is_watched, notify, reloading
from forebay.server.telemetry.status import AppStatus
from forebay.server.transport.tls import TlsContexts

logger = logging.getLogger("forebay")


class Service(ABC):
    """A service beside the sessions in the broker's event loop, for people and programs that operate it."""

    @abstractmethod
    async def start(self) -> dict[str, str]:
        """Begin; the addresses it listens on, by the names of their options. OptionError where it cannot."""

    @abstractmethod
    async def stop(self) -> None:
        """End, before the connections do."""

    def reload(self, options: Options) -> None:  # noqa: B027  most have nothing to do
        """Go on with other options, which are checked and in force; within the turn."""


MakeService = Callable[[App], Service]


class Signals:
    """The signals that the process gets.

    stop   SIGTERM or SIGINT has come
    hurry  another one: no client is waited for any more
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.number = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.on_stop, number)

    def on_stop(self, number: int) -> None:
        if self.stop.is_set():
            self.hurry.set()
            self.number = number
        self.stop.set()

    def exit_code(self) -> int:
        """The code of a process that has ended as it was told: a second signal is told by its number."""
        return 128 + self.number if self.number else 0


async def run(source: OptionSource, loaded: Loaded, makers: Sequence[MakeService]) -> int:
    """Run a single node until SIGTERM; the process's exit code. Arguments and errors as of `serve` (serve.py)."""
    loop = asyncio.get_running_loop()
    options = loaded.options
    tls = TlsContexts(options)
    listeners = endpoints(options, tls)
    with placed(loaded):
        check_options(options)
    app = App(options, loop, tls)
    loop.set_exception_handler(app.faults.on_loop_error)
    app.control.server = AppStatus(app)
    reloader = app.control.configuration = Reloader(app, source, loaded)
    with how_to_mend(options.data), placed(loaded):
        app.recover()
    signals = Signals(loop)
    loop.add_signal_handler(signal.SIGHUP, on_hangup, reloader)
    servers = []
    services: list[Service] = []
    ready: dict[str, object] = {"pid": os.getpid(), "data": app.disk.root}
    try:
        for endpoint in listeners:
            server, actual = await app.listen(partial(make_protocol, app), endpoint)
            servers.append(server)
            app.addresses[endpoint.name] = actual
        for make in makers:
            services.append(make(app))
            app.addresses.update(await services[-1].start())
            reloader.followers.append(services[-1].reload)
    except OptionError:
        app.sender.stop()
        app.end_commits()
        app.end_work()  # while there is a loop for it to come back to
        raise
    tune_collector()
    loop.call_later(TICK_S, app.step, app.tick)
    ready.update(app.addresses)
    sys.stdout.write("ready " + json.dumps(ready) + "\n")
    sys.stdout.flush()
    notify(READY)
    if is_watched():
        app.watchers.append(partial(notify, WATCHDOG))
    await signals.stop.wait()
    notify(STOPPING)
    await grace(app, signals.hurry)
    for server in servers:
        server.close()
    for service in services:
        await service.stop()
    await drain(app, signals.hurry)
    return signals.exit_code()


@contextmanager
def how_to_mend(data: str) -> Iterator[None]:
    """Say what to do about files that keep the broker from starting."""
    try:
        yield
    except CorruptFile as error:
        words = (
            f"forebay log verify {data} says what is damaged, forebay log repair {data} mends it as far as it can be"
        )
        raise StorageError(f"{error}; {words}") from error


async def grace(app: App, hurry: asyncio.Event) -> None:
    """Say for a while that the broker is about to stop, so that nobody is sent here any more."""
    app.leaving = True
    if app.options.drain_grace_ms:
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), app.options.drain_grace_ms / 1000)


def on_hangup(reloader: Reloader) -> None:
    """SIGHUP: read the configuration again. What is wrong with it is in the log."""
    notify(reloading())
    with suppress(RequestError):
        reloader.reload()
    notify(READY)
