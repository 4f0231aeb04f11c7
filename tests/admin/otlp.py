"""A receiver of OTLP over HTTP, as a collector is one: it decodes what comes with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """Listens on a port of its own while it is entered.

    spans    that came so far
    metrics  the last number of each by name and the values of its attributes
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: dict[tuple[str, ...], float] = {}
        self.resources: list[dict[str, Any]] = []
        self.down = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if not receiver.down:
                    receiver.take(self.path, body)
                self.send_response(503 if receiver.down else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Receiver:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self.take_spans(ExportTraceServiceRequest.FromString(body))
        else:
            assert path == "/v1/metrics", path
            self.take_metrics(ExportMetricsServiceRequest.FromString(body))

    def take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.resources.append(values_of(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            self.resources.append(values_of(resource.resource.attributes))
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
                    for point in points:
                        number = point.as_int if point.HasField("as_int") else point.as_double
                        values = tuple(str(each) for each in values_of(point.attributes).values())
                        self.metrics[(metric.name, *values)] = number

    def of_trace(self, trace: str) -> list[Span]:
        """The spans of one trace, by when they begin and end."""
        found = [span for span in self.spans if span.trace_id.hex() == trace]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))


def values_of(attributes: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
