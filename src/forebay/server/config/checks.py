"""The rules of options that their table cannot say: those of other modules, files, and what they hold.

The same is asked at the start, by `forebay config check`, and before a running broker takes other options.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from forebay.broker.vhosts import check_vhost_name
from forebay.core.errors import OptionError, RequestError
from forebay.core.options import Options
from forebay.directory.logins.login import Auth
from forebay.directory.topic_acl import AclBook
from forebay.directory.users import check_configured
from forebay.management.definitions.configured import check_exchange, configured_arguments
from forebay.node.telemetry.events import check_patterns
from forebay.routing.topic_trie import check_filter
from forebay.server.auth.acl_file import load_acl
from forebay.server.auth.backends import make_backends
from forebay.server.cluster.settings import make_settings
from forebay.server.transport.tls import make_context


def check_options(options: Options) -> None:
    """Raise OptionError for the first option with which a broker could not go on."""
    for each in CHECKS:
        each(options)


def check_events(options: Options) -> None:
    """Raise OptionError if an event pattern matches no event, or a webhook has no address."""
    check_patterns("events", options.events)
    check_patterns("log_events", options.log_events)
    for place, hook in enumerate(options.webhooks):
        check_patterns(f"webhooks[{place}].events", hook.events)
        if not hook.url.startswith(("http://", "https://")):
            raise OptionError(f"webhooks[{place}].url: {hook.url!r} must begin with http:// or https://")


def check_users(options: Options) -> None:
    """Raise OptionError for invalid users, permissions, topic rules or login backends."""
    check_configured(options.users, options.permissions)
    Auth(options.users, options.loopback_users).set_shared_keys(options.amqp_shared_access_keys)
    load_acl(AclBook(), options.mqtt_acl)
    make_backends(options)


def check_topology(options: Options) -> None:
    """Raise OptionError for invalid vhosts, queues and exchanges."""
    for place, entry in enumerate(options.vhosts):
        try:
            check_vhost_name(entry.name.encode())
        except RequestError as error:
            raise OptionError(f"vhosts[{place}].name: {error.text}") from None
    for place, exchange in enumerate(options.exchanges):
        check_exchange(exchange, f"exchanges[{place}]")
    for place, queue in enumerate(options.queues):
        configured_arguments(queue, f"queues[{place}]", options.cluster)
        for topic in queue.topics:
            try:
                check_filter(topic.encode())
            except RequestError as error:
                raise OptionError(f"queues[{place}].topics: {error.text}") from None


def check_tls(options: Options) -> None:
    """Raise OptionError if TLS is in use, or a certificate is named, and the files are not what TLS needs."""
    secure = options.amqps or options.mqtts or options.mqtt_websocket_tls or options.https
    if secure or options.tls_certificate:
        make_context(options)


def check_telemetry(options: Options) -> None:
    """Raise OptionError if OpenTelemetry's endpoint is invalid, or its SDK or exporter is not installed."""
    if not options.otel_endpoint:
        return
    if not options.otel_endpoint.startswith(("http://", "https://")):
        raise OptionError(f"otel_endpoint: {options.otel_endpoint!r} must begin with http:// or https://")
    if not all(installed(name) for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")):
        raise OptionError("otel_endpoint needs OpenTelemetry's SDK and its exporter: pip install 'forebay[otel]'")


def check_cluster(options: Options) -> None:
    """Raise OptionError if a node could not find the other nodes, or they could not know it."""
    if options.cluster.name:
        make_settings(options)


def installed(module: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


CHECKS: Final[tuple[Callable[[Options], None], ...]] = (
    check_events,
    check_users,
    check_topology,
    check_tls,
    check_telemetry,
    check_cluster,
)
