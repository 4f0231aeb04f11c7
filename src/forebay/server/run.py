"""One broker from its start to its end: listeners, services, signals."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import uvloop

from forebay.core.errors import OptionError
from forebay.core.options import Options
from forebay.server.app import TICK_S, App
from forebay.server.handles import raise_limit
from forebay.server.heap import tune_collector
from forebay.server.listen import endpoints, listen, make_protocol
from forebay.server.logs import start_log
from forebay.server.status import AppFacts
from forebay.server.tls import Tls

logger = logging.getLogger("forebay")


class Service(ABC):
    """What runs beside the sessions in the broker's event loop, for people and programs that operate it."""

    @abstractmethod
    async def start(self) -> dict[str, str]:
        """Begin; the addresses it listens on, by the names of their options. OptionError where it cannot."""

    @abstractmethod
    async def stop(self) -> None:
        """End, before the connections do."""


MakeService = Callable[[App], Service]


async def run(options: Options, makers: Sequence[MakeService]) -> int:
    loop = asyncio.get_running_loop()
    tls = Tls(options)
    listeners = endpoints(options, tls)
    app = App(options, loop, tls)
    app.control.server = AppFacts(app)
    app.recover()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers = []
    services: list[Service] = []
    ready: dict[str, object] = {"pid": os.getpid(), "data": app.disk.root}
    try:
        for endpoint in listeners:
            server, actual = await listen(partial(make_protocol, app), endpoint)
            servers.append(server)
            app.addresses[endpoint.name] = actual
        for make in makers:
            services.append(make(app))
            app.addresses.update(await services[-1].start())
    except OptionError:
        app.sender.stop()
        app.thread.stop()  # while there is a loop for it to come back to
        raise
    tune_collector()
    loop.call_later(TICK_S, app.step, app.tick)
    ready.update(app.addresses)
    sys.stdout.write("ready " + json.dumps(ready) + "\n")
    sys.stdout.flush()
    await stop.wait()
    for server in servers:
        server.close()
    for service in services:
        await service.stop()
    await app.drain()
    return app.exit_code


def serve(options: Options, makers: Sequence[MakeService] = ()) -> int:
    """Run a broker until SIGTERM; the process's exit code. StorageError or OptionError: it could not start.

    makers  of the services that run beside it
    """
    start_log(options)
    raise_limit(options.connections_max)
    return uvloop.run(run(options, makers))
