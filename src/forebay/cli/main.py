"""The command `forebay`. Errors are one line and an exit code.

1 where it was refused or failed, 2 for a user's mistake, 3 where no broker answers or nobody knows what it did.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from forebay import __version__
from forebay.cli import (
    delayed,
    dlq,
    exchanges,
    logs,
    message,
    policies,
    queues,
    readers,
    sessions,
    spark,
    transactions,
    users,
    vhosts,
)
from forebay.cli.bench import bench
from forebay.cli.consuming import consume
from forebay.cli.publishing import publish
from forebay.cli.status import status
from forebay.cli.top import top
from forebay.client.connecting import Unreachable
from forebay.core.errors import ForebayError, OptionError, OutcomeUnknown

FAILED = 1
MISTAKE = 2
UNREACHABLE = 3

app = typer.Typer(
    name="forebay",
    help="One durable message broker for MQTT and AMQP whose queues are tables for Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for name, group in {
    "binding": exchanges.bindings,
    "channel": readers.channels,
    "connection": readers.connections,
    "consumer": readers.consumers,
    "delayed": delayed.app,
    "dlq": dlq.app,
    "exchange": exchanges.app,
    "group": readers.groups,
    "lease": readers.leases,
    "log": logs.app,
    "message": message.app,
    "operator-policy": policies.operators,
    "permission": users.permissions,
    "policy": policies.app,
    "queue": queues.app,
    "retained": sessions.retained,
    "session": sessions.app,
    "spark": spark.app,
    "stream": message.streams,
    "subscription": sessions.subscriptions,
    "topic-permission": users.topics,
    "transaction": transactions.app,
    "user": users.app,
    "vhost": vhosts.app,
}.items():
    app.add_typer(group, name=name)


for command in (bench, consume, publish, status, top):
    app.command()(command)


@app.command()
def serve(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML or YAML file of options; see docs/options.md.")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Folder of the broker's files.")] = None,
    amqp: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where AMQP clients connect; port 0 takes any free one.")
    ] = None,
    mqtt: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where MQTT clients connect; port 0 takes any free one.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where web page and HTTP API are; empty for nowhere."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints one line, `ready` and a JSON object with the process id, the data folder and the listeners' addresses, once
    it accepts connections. Options given here go before the environment (FOREBAY_<NAME>), and that before the file.
    """
    from forebay.server.config import Source

    given = {"data": data, "amqp": amqp, "mqtt": mqtt, "http": http}
    flags = {name: value for name, value in given.items() if value is not None}
    source = Source(flags, os.environ, config)
    loaded = source.load()
    options = loaded.options
    from forebay.server.run import MakeService  # after the options: a mistake in them needs no event loop
    from forebay.server.run import serve as run

    services: list[MakeService] = []
    if options.http or options.https:
        from forebay.admin.service import AdminService  # a broker without HTTP need not load it

        services.append(AdminService)
    if options.prometheus:
        from forebay.admin.service import MetricsService

        services.append(MetricsService)
    raise typer.Exit(run(source, loaded, services))


@app.command()
def demo(
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="How many flights to send; all 336,776 by default.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Empty folder for all files, which then stay; see docs/demo.md.")
    ] = None,
) -> None:
    """Send a year of flights through a broker of its own, with workers and Spark at the other end.

    Exits with 1 if anything was lost, counted twice or computed otherwise than pandas does from the source file.
    """
    try:
        from forebay.cli import demo as job
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("forebay"):
            raise
        raise OptionError(f"the demo needs the package {error.name}: pip install 'forebay[demo]'") from error
    raise typer.Exit(job.run(rows, data))


@app.command()
def version() -> None:
    """Print the version, and whether the hot modules are compiled."""
    from forebay.log import block

    build = "interpreted" if block.__file__.endswith(".py") else "compiled"
    print(f"forebay {__version__} ({build}, Python {sys.version.split()[0]})")


def main() -> None:
    """Run the command line; known errors become one line and an exit code."""
    try:
        app()
    except OptionError as error:
        print(f"forebay: {error}", file=sys.stderr)
        sys.exit(MISTAKE)
    except (Unreachable, OutcomeUnknown) as error:
        print(f"forebay: {error}", file=sys.stderr)
        sys.exit(UNREACHABLE)
    except ForebayError as error:
        print(f"forebay: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except BrokenPipeError:  # whoever read what was printed has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more
        sys.exit(FAILED)
