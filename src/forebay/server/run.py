"""A node from its start to its end, alone or in a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from forebay.core.errors import OptionError
from forebay.core.options import Options
from forebay.server.config.checks import check_options
from forebay.server.config.sources import Loaded, OptionSource, placed
from forebay.server.drain import drain
from forebay.server.listen import endpoints, http_endpoints, metrics_endpoints
from forebay.server.node_process import Alone, NodeProcess
from forebay.server.process import Peers
from forebay.server.runtime import MakeService, Serving, Signals, grace, how_to_mend, print_ready
from forebay.server.system.heap import resume_collector
from forebay.server.system.notify import STOPPING, notify
from forebay.server.transport.tls import TlsContexts

if TYPE_CHECKING:
    from forebay.server.cluster.clients.scrape import TellMetrics


async def run(
    source: OptionSource, loaded: Loaded, makers: Sequence[MakeService], tell_metrics: TellMetrics | None = None
) -> int:
    """Run a node until SIGTERM; return the process's exit code. Arguments and errors as of `serve` (serve.py)."""
    loop = asyncio.get_running_loop()
    options = loaded.options
    tls = TlsContexts(options)
    listeners = endpoints(options, tls)
    with placed(loaded):
        check_options(options)
        make_peers = peers_of(options, tls, tell_metrics)
    process = NodeProcess(options, loop, tls, make_peers)
    loop.set_exception_handler(process.faults.on_loop_error)
    with how_to_mend(options.data), placed(loaded):
        process.open()
    signals = Signals(loop)
    serving = Serving(process, source, loaded, makers, listeners)
    await process.peers.start(listeners, signals.stop.is_set)
    starting = loop.create_task(serving.start())
    if process.led.is_set():
        await begun(process, starting)
    else:
        starting.add_done_callback(process.faults.on_task_done)
        resume_collector()  # a node may follow for as long as it lives
    print_ready({"pid": os.getpid(), "data": process.disk.root, **process.peers.fields()})
    await signals.stop.wait()
    notify(STOPPING)
    await stop(process, serving, starting, signals.hurry)
    return signals.exit_code()


def peers_of(options: Options, tls: TlsContexts, tell_metrics: TellMetrics | None) -> Callable[[NodeProcess], Peers]:
    """Return what makes the peers of a node with these options. OptionError if they cannot be."""
    if not options.cluster.name:
        return Alone
    from forebay.server.cluster.peers import ClusterPeers  # noqa: PLC0415  a node that is alone needs none of it
    from forebay.server.cluster.settings import make_settings  # noqa: PLC0415

    settings = make_settings(options)
    others = [
        *http_endpoints(options, tls),
        *metrics_endpoints(options),
    ]
    return partial(ClusterPeers, settings, others, tell_metrics)


async def begun(process: NodeProcess, starting: asyncio.Task[None]) -> None:
    """Wait until a node that leads serves. Raises OptionError if it cannot."""
    try:
        await starting
    except OptionError:
        if process.app is not None:
            process.app.sender.stop()
        process.end_commits()
        process.end_work()  # while there is a loop for it to come back to
        raise


async def stop(process: NodeProcess, serving: Serving, starting: asyncio.Task[None], hurry: asyncio.Event) -> None:
    """Hand leadership to another node if one can lead, send clients their goodbye, and close the files."""
    app, peers = process.app, process.peers
    if app is None or process.ended:
        starting.cancel()
        await peers.leave(hurry)
    else:
        await grace(app, hurry)
        handed_over = await peers.hand_over()
        await serving.stop()
        if handed_over:
            await peers.part(hurry)
        else:
            await drain(app, hurry)
    await peers.stop()
