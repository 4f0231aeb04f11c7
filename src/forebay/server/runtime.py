"""The services of a broker, the signals to its process, and its ready line."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from forebay.core.errors import CorruptFile, RequestError, StorageError
from forebay.core.options import Options
from forebay.server.app import TICK_S, App
from forebay.server.config.reload import Reloader
from forebay.server.config.sources import Loaded, OptionSource
from forebay.server.listen import Closable, Endpoint, make_protocol
from forebay.server.node_process import NodeProcess
from forebay.server.system.heap import tune_collector
from forebay.server.system.notify import READY, notify, reloading
from forebay.server.telemetry.status import AppStatus


class Service(ABC):
    """A service beside the sessions in the broker's event loop, for people and programs that operate it."""

    @abstractmethod
    async def start(self) -> dict[str, str]:
        """Start the service; return its addresses by option name. Raises OptionError if it cannot start."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the service, before the connections end."""

    def reload(self, options: Options) -> None:  # noqa: B027  most have nothing to do
        """Apply other options, which are checked and in force. Called within the turn."""


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
        """Return the exit code of a process that ended as told: 0, or 128 plus the number of a second signal."""
        return 128 + self.number if self.number else 0


class Serving:
    """The service that a node gives while it leads: listeners for clients, and what runs beside the sessions.

    makers    of services that run beside the sessions
    listeners  for clients, as the options have them
    servers   the same, as they are open
    services  in the order in which they were started
    """

    def __init__(
        self,
        process: NodeProcess,
        source: OptionSource,
        loaded: Loaded,
        makers: Sequence[MakeService],
        listeners: Sequence[Endpoint],
    ) -> None:
        self.process = process
        self.source = source
        self.loaded = loaded
        self.makers = makers
        self.listeners = listeners
        self.servers: list[Closable] = []
        self.services: list[Service] = []

    async def start(self) -> None:
        """Serve as soon as the node leads. Each service gets other options whenever the configuration is read again."""
        process = self.process
        await process.led.wait()
        app = process.app
        assert app is not None
        reloader = take_orders(app, self.source, self.loaded)
        app.loop.call_later(TICK_S, process.guard, app.tick)
        for endpoint in self.listeners:
            server, app.addresses[endpoint.name] = await app.listen(partial(make_protocol, app), endpoint)
            self.servers.append(server)
        process.peers.begin_to_serve()
        for make in self.makers:
            service = make(app)
            self.services.append(service)
            app.addresses.update(await service.start())
            reloader.followers.append(service.reload)
        process.peers.serves()
        tune_collector()

    async def stop(self) -> None:
        """Take no more clients, and stop the services."""
        for server in self.servers:
            server.close()
        self.process.peers.close_listeners()
        for service in self.services:
            await service.stop()


def take_orders(app: App, source: OptionSource, loaded: Loaded) -> Reloader:
    """Give administrators the process's status and a reload of the configuration, which SIGHUP starts, too."""
    app.control.server = AppStatus(app)
    reloader = app.control.configuration = Reloader(app, source, loaded)
    app.loop.add_signal_handler(signal.SIGHUP, on_hangup, reloader)
    return reloader


def print_ready(fields: dict[str, object]) -> None:
    """Print the ready line, and notify the service manager: the process serves, at the addresses in `fields`."""
    sys.stdout.write("ready " + json.dumps(fields) + "\n")
    sys.stdout.flush()
    notify(READY)


@contextmanager
def how_to_mend(data: str) -> Iterator[None]:
    """Add the remedy to the error about files so damaged that the broker cannot start."""
    try:
        yield
    except CorruptFile as error:
        words = (
            f"forebay log verify {data} says what is damaged, forebay log repair {data} mends it as far as it can be"
        )
        raise StorageError(f"{error}; {words}") from error


async def grace(app: App, hurry: asyncio.Event) -> None:
    """Report for `drain_grace_ms` that the broker is about to stop, so that nobody is sent here any more."""
    app.leaving = True
    if app.options.drain_grace_ms:
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), app.options.drain_grace_ms / 1000)


def on_hangup(reloader: Reloader) -> None:
    """Read the configuration again on SIGHUP. Its errors are in the log."""
    notify(reloading())
    with suppress(RequestError):
        reloader.reload()
    notify(READY)
