"""OpenTelemetry: metrics and traces, sent as OTLP over HTTP by threads of the SDK, for which the loop never waits.

Its metrics are those of Prometheus under the same names, and those of MQTT also under the names that FluxMQ gives them.
They are gathered in the loop; the SDK's thread reads what was gathered last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import forebay
from forebay.admin.metrics.exposition import Samples, Sink, labelled
from forebay.admin.metrics.family import COUNTER, GAUGE, Metric
from forebay.admin.metrics.gather import Gathering, ScrapeRequest
from forebay.admin.rabbitmq.node.node import HOST
from forebay.admin.telemetry.spans import MessageTracer
from forebay.core.units import MS_PER_S
from forebay.server.broker_view import BrokerView
from forebay.server.runtime import Service
from forebay.server.telemetry.histograms import QUANTILES, Histogram, quantile_of

SPANS_MS: Final = 500  # how long a span may wait for others to be sent with
LEAVE_S: Final = 3.0  # that the last data may take when the broker stops
# FluxMQ's names of what has one here.
FLUX_NAMES: Final = {
    "forebay_mqtt_connects": "mqtt.connections.total",
    "forebay_mqtt_connections": "mqtt.connections.current",
    "forebay_mqtt_messages_received": "mqtt.messages.received.total",
    "forebay_mqtt_messages_sent": "mqtt.messages.sent.total",
    "forebay_mqtt_payload_bytes_received": "mqtt.bytes.received.total",
    "forebay_mqtt_payload_bytes_sent": "mqtt.bytes.sent.total",
    "forebay_mqtt_subscriptions": "mqtt.subscriptions.active",
    "forebay_mqtt_retained_messages": "mqtt.retained.messages",
    "forebay_mqtt_sessions": "mqtt.sessions.active",
}

Observe = Callable[[CallbackOptions], Iterable[Observation]]


class Numbers(Sink):
    """The metrics that were gathered last, by name."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self.samples: dict[str, Samples] = {}

    def add(self, metric: Metric, samples: Samples) -> None:
        if metric.name not in self.samples:
            self.metrics[metric.name] = metric
            self.samples[metric.name] = samples

    def more(self, metric: Metric, samples: Samples) -> None:
        self.samples[metric.name] = [*self.samples[metric.name], *samples]

    def add_histogram(self, metric: Metric, measured: Histogram, scale: float) -> None:
        """Add a histogram's quantiles of the last minute: the SDK has no histograms that are counted elsewhere."""
        counts, _ = measured.last_minute()
        self.metrics[metric.name] = Metric(metric.name, GAUGE, metric.doc, metric.group, ("quantile",))
        self.samples[metric.name] = [
            (labelled(("quantile",), (str(quantile),)), quantile_of(counts, quantile) / scale) for quantile in QUANTILES
        ]


class TelemetryService(Service):
    """Sends metrics and spans for as long as the broker runs."""

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        options = app.options
        self.endpoint = options.otel_endpoint.rstrip("/")
        self.interval_s = options.otel_metrics_interval_s
        self.resource = Resource.create(
            {
                "service.name": options.otel_service_name,
                "service.version": forebay.__version__,
                "service.instance.id": HOST,
            }
        )
        self.numbers = Numbers()
        self.known: set[str] = set()
        self.provider: MeterProvider | None = None
        self.spans: BatchSpanProcessor | None = None
        self.gathering: asyncio.Task[None] | None = None

    async def start(self) -> dict[str, str]:
        options = self.app.options
        if self.interval_s:
            await self.gather()
            exporter = OTLPMetricExporter(f"{self.endpoint}/v1/metrics")
            reader = PeriodicExportingMetricReader(exporter, self.interval_s * MS_PER_S)
            self.provider = MeterProvider([reader], self.resource, shutdown_on_exit=False)
            self.observe(self.provider.get_meter("forebay", forebay.__version__))
            self.gathering = asyncio.create_task(self.go_on())
        if options.otel_traces:
            self.spans = BatchSpanProcessor(
                OTLPSpanExporter(f"{self.endpoint}/v1/traces"), schedule_delay_millis=SPANS_MS
            )
            secret = self.app.vhosts.shared.secret
            tracer = MessageTracer(self.spans.on_end, self.resource, options.otel_traces_per_million, secret)
            self.app.trace(tracer)
        return {}

    async def gather(self) -> None:
        numbers = Numbers()
        await Gathering(self.app, ScrapeRequest()).run(numbers)
        self.numbers = numbers

    async def go_on(self) -> None:
        """Gather anew, often enough that what is sent is not older than an interval."""
        assert self.provider is not None
        meter = self.provider.get_meter("forebay", forebay.__version__)
        while True:
            await asyncio.sleep(self.interval_s / 2)
            await self.gather()
            self.observe(meter)

    def observe(self, meter: Meter) -> None:
        """Have an instrument for each metric that was gathered for the first time."""
        for name, metric in self.numbers.metrics.items():
            if name in self.known:
                continue
            self.known.add(name)
            for shown in [metric.written, *([FLUX_NAMES[name]] if name in FLUX_NAMES else [])]:
                if metric.kind == COUNTER:
                    meter.create_observable_counter(shown, [self.reader(name)], description=metric.doc)
                else:
                    meter.create_observable_gauge(shown, [self.reader(name)], description=metric.doc)

    def reader(self, name: str) -> Observe:
        """A callback for the SDK's thread: it reads what was gathered, and never the broker."""

        def read(options: CallbackOptions) -> list[Observation]:
            samples = self.numbers.samples.get(name, [])
            return [Observation(number, dict(labels.pairs)) for labels, number in samples]

        return read

    async def stop(self) -> None:
        if self.gathering is not None:
            self.gathering.cancel()
            await self.gather()
        # A thread that the process does not wait for: it may be that nobody takes what is left.
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        Thread(target=self.end, args=(partial(loop.call_soon_threadsafe, ended.set),), daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await ended.wait()

    def end(self, tell: Callable[[], object]) -> None:
        """Send what is left, and tell that it is done if there is still somebody to tell."""
        if self.provider is not None:
            self.provider.shutdown(LEAVE_S * MS_PER_S)
        if self.spans is not None:
            self.spans.shutdown()  # type: ignore[no-untyped-call]
        with suppress(RuntimeError):  # the loop is closed
            tell()
