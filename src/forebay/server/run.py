"""A single node from its start to its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from forebay.core.errors import OptionError
from forebay.server.app import App
from forebay.server.config.checks import check_options
from forebay.server.config.sources import Loaded, OptionSource, placed
from forebay.server.drain import drain
from forebay.server.listen import endpoints, make_protocol
from forebay.server.runtime import (
    MakeService,
    Services,
    Signals,
    grace,
    how_to_mend,
    let_time_pass,
    print_ready,
    take_orders,
)
from forebay.server.system.heap import tune_collector
from forebay.server.system.notify import STOPPING, WATCHDOG, is_watched, notify
from forebay.server.transport.tls import TlsContexts


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
    with how_to_mend(options.data), placed(loaded):
        app.recover()
    signals = Signals(loop)
    reloader = take_orders(app, source, loaded)
    servers = []
    services = Services(makers)
    try:
        for endpoint in listeners:
            server, actual = await app.listen(partial(make_protocol, app), endpoint)
            servers.append(server)
            app.addresses[endpoint.name] = actual
        await services.start(app, reloader)
    except OptionError:
        app.sender.stop()
        app.end_commits()
        app.end_work()  # while there is a loop for it to come back to
        raise
    tune_collector()
    let_time_pass(app)
    if is_watched():
        app.watchers.append(partial(notify, WATCHDOG))
    print_ready({"pid": os.getpid(), "data": app.disk.root, **app.addresses})
    await signals.stop.wait()
    notify(STOPPING)
    await grace(app, signals.hurry)
    for server in servers:
        server.close()
    await services.stop()
    await drain(app, signals.hurry)
    return signals.exit_code()
