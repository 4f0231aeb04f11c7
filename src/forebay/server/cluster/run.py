"""One node of a cluster from its start to its end: listeners, its part in the group, services while it leads."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial

from forebay.server.cluster.clients.scrape import TellMetrics
from forebay.server.cluster.load import LeaderLoad
from forebay.server.cluster.member_process import MemberProcess
from forebay.server.cluster.settings import make_settings
from forebay.server.config.checks import check_options
from forebay.server.config.sources import Loaded, OptionSource, placed
from forebay.server.drain import drain
from forebay.server.listen import endpoints, http_endpoints, make_protocol, metrics_endpoints
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
from forebay.server.system.heap import resume_collector, tune_collector
from forebay.server.system.notify import STOPPING, WATCHDOG, is_watched, notify
from forebay.server.system.replacement import heed_signals
from forebay.server.transport.tls import TlsContexts


async def run_member(
    source: OptionSource, loaded: Loaded, makers: Sequence[MakeService], tell_metrics: TellMetrics | None = None
) -> int:
    """Run one node until SIGTERM; the process's exit code. Arguments and errors as of `forebay.server.serve.serve`."""
    loop = asyncio.get_running_loop()
    options = loaded.options
    tls = TlsContexts(options)
    with placed(loaded):
        check_options(options)
        settings = make_settings(options)
        listeners = [*endpoints(options, tls), *http_endpoints(options, tls), *metrics_endpoints(options)]
    member = MemberProcess(options, settings, loop, tls)
    loop.set_exception_handler(member.faults.on_loop_error)
    member.elsewhere.tell_metrics = tell_metrics
    with how_to_mend(options.data), placed(loaded):
        member.open()
    signals = Signals(loop)
    heed_signals()
    member.is_told_to_stop = signals.stop.is_set
    loop.add_signal_handler(signal.SIGHUP, member.hung_up)
    services = Services(makers)
    await member.listeners.open(listeners)
    await member.start()
    member.watchers.append(LeaderLoad(member).look)
    if is_watched():
        member.watchers.append(partial(notify, WATCHDOG))
    serving = loop.create_task(serve_when_leading(member, source, loaded, services))
    serving.add_done_callback(member.ended_serving)
    print_ready({"pid": os.getpid(), "data": member.disk.root, "node": settings.node, **member.listeners.addresses})
    resume_collector()  # a node may follow for as long as it lives
    await signals.stop.wait()
    notify(STOPPING)
    app = member.app
    if app is None or member.ended:
        serving.cancel()
        await member.draining.leave(signals.hurry)
        await member.stop()
        return signals.exit_code()
    await grace(app, signals.hurry)
    handed_over = await member.hand_over()
    member.listeners.close()
    await services.stop()
    if handed_over:
        await member.draining.parted(signals.hurry)
    else:
        await drain(app, signals.hurry)
    await member.stop()
    return signals.exit_code()


async def serve_when_leading(member: MemberProcess, source: OptionSource, loaded: Loaded, services: Services) -> None:
    """Have the listeners and services serve clients, once the node leads."""
    await member.led.wait()
    app = member.app
    assert app is not None
    app.control.cluster = member.state
    reloader = take_orders(app, source, loaded)
    let_time_pass(app)
    for endpoint in endpoints(loaded.options, member.tls):
        await app.listen(partial(make_protocol, app), endpoint)
    member.serve_waiting()
    await services.start(app, reloader)
    member.state.tell_take_over()
    tune_collector()
