"""`forebay serve` and `version`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from forebay import __version__
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.build import build, print_build, python

if TYPE_CHECKING:
    from forebay.server.cluster.clients.scrape import TellMetrics
    from forebay.server.runtime import MakeService


def serve(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML or YAML file of options; see docs/reference/options.md.")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="The data folder.")] = None,
    amqp: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Listener for AMQP; port 0 takes any free port.")
    ] = None,
    mqtt: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Listener for MQTT; port 0 takes any free port.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Listener for the web page and the HTTP API; empty for none."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints one line once it accepts connections: `ready` and a JSON object with the process id, the data folder and the
    listeners' addresses. Options given here override the environment (FOREBAY_<NAME>), which overrides the file.

    Example: forebay serve --data /var/lib/forebay --amqp 0.0.0.0:5672
    """
    from forebay.server.system.heap import pause_collector

    pause_collector()  # also while modules are loaded
    from forebay.server.config.sources import OptionSource

    given = {"data": data, "amqp": amqp, "mqtt": mqtt, "http": http}
    flags = {name: value for name, value in given.items() if value is not None}
    source = OptionSource(flags, os.environ, config)
    loaded = source.load()
    options = loaded.options
    from forebay.admin.webhooks.service import WebhookService
    from forebay.server.serve import serve as run  # after the options: do not load the event loop if they are wrong

    services: list[MakeService] = []
    tell_metrics: TellMetrics | None = None
    if options.http or options.https:
        from forebay.admin.service import AdminService  # a broker without HTTP need not load it

        services.append(AdminService)
    services.append(WebhookService)
    if options.coap:
        from forebay.admin.coap.service import CoapService

        services.append(CoapService)
    if options.prometheus:
        from forebay.admin.service import MetricsService

        services.append(MetricsService)
        if options.cluster.name:
            from forebay.admin.metrics.cluster import follower_metrics

            tell_metrics = follower_metrics
    if options.otel_endpoint:
        from forebay.admin.telemetry.export import TelemetryService

        services.append(TelemetryService)
    raise typer.Exit(run(source, loaded, services, tell_metrics))


def version(as_json: JsonOption = False) -> None:
    """Print the version, and whether forebay is compiled.

    Example: forebay version
    """
    if as_json:
        show_json({"version": __version__, "build": build(), "python": python()})
    else:
        print_build()
