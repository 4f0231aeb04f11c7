"""A broker's process, of a single node or of one of a cluster, until it ends."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import uvloop

from forebay.server.config.sources import Loaded, OptionSource
from forebay.server.faults import Faults
from forebay.server.run import run
from forebay.server.runtime import MakeService
from forebay.server.system.handles import raise_limit
from forebay.server.telemetry.logs import flush_log, start_log

if TYPE_CHECKING:
    from forebay.server.cluster.clients.scrape import TellMetrics


def serve(
    source: OptionSource,
    loaded: Loaded,
    makers: Sequence[MakeService] = (),
    tell_metrics: TellMetrics | None = None,
) -> int:
    """Run a broker until SIGTERM; return the exit code. Raises StorageError or OptionError if it cannot start.

    source  of the options, read again when the broker is told to
    loaded  the options at the start
    makers  of the services that run beside it
    tell_metrics  for Prometheus, at a node of a cluster that does not lead
    """
    start_log(loaded.options)
    raise_limit(loaded.options.connections_max)
    return to_its_end(run(source, loaded, makers, tell_metrics))


def to_its_end(work: Coroutine[Any, Any, int]) -> int:
    """Run a broker in an event loop; return the process's exit code.

    An error of a socket or file that nobody has taken is ours. The command line would take it for one of its output,
    and end without a word.
    """
    try:
        return uvloop.run(work)
    except OSError as error:
        Faults().stop(error)
        raise
    finally:
        flush_log()
