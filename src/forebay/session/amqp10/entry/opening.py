"""The `open` of both sides (2.7.1): the vhost that a client asks for, and what the broker says of itself."""

from __future__ import annotations

from typing import Final

from forebay import __version__
from forebay.core import option_names as words
from forebay.core.options import Options
from forebay.core.units import MS_PER_S
from forebay.directory.vhost_list import DEFAULT_VHOST
from forebay.wire.amqp10.performatives import Open

IDLE_MS_MIN: Final = 1000
CHANNEL_MAX: Final = 255
HANDLE_MAX: Final = 1023
VHOST_PREFIX: Final = "vhost:"
LINK_PAIR: Final = "LINK_PAIR_V1_0"
ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
SHARED_SUBSCRIPTIONS: Final = "SHARED-SUBS"  # as JMS clients look for
REFUSED: Final = "amqp:connection-establishment-failed"

# Clients of RabbitMQ refuse a broker of another name, or of a version that is too low: they are told these.
RABBITMQ_VERSION: Final = "4.2.0"
RABBITMQ_CLIENTS: Final = ("rabbitmq", "rabbit")  # in the names that clients give themselves, in small letters


def vhost_of(hostname: str | None) -> bytes:
    """Return the vhost that `hostname` asks for: `vhost:NAME`, else the default one."""
    if hostname is not None and hostname.startswith(VHOST_PREFIX):
        return hostname[len(VHOST_PREFIX) :].encode("utf-8")
    return DEFAULT_VHOST


def knows_rabbitmq(opened: Open) -> bool:
    """Return whether a client expects to talk to RabbitMQ: its name says so, or how it names its vhost."""
    if opened.hostname is not None and opened.hostname.startswith(VHOST_PREFIX):
        return True
    name = str((opened.properties or {}).get("product", "")).lower()
    return len([each for each in RABBITMQ_CLIENTS if each in name]) > 0


def open_answer(options: Options, node: str, for_rabbitmq: bool = False, is_refused: bool = False) -> Open:
    """Return the broker's `open`.

    node          name of the node; "" for none
    for_rabbitmq  the client expects RabbitMQ's name and version, by which it chooses what it does
    is_refused    an error follows: the client is told that the connection does not come about
    """
    if options.amqp_product != words.AUTO:
        for_rabbitmq = options.amqp_product == words.RABBITMQ
    opened = Open(node or "forebay")
    opened.max_frame_size = options.amqp_frame_octets_max
    opened.channel_max = CHANNEL_MAX
    opened.idle_time_out_ms = options.amqp_heartbeat_s * MS_PER_S // 2
    opened.offered_capabilities = [LINK_PAIR, ANONYMOUS_RELAY, SHARED_SUBSCRIPTIONS]
    properties: dict[str, object] = {
        "product": words.RABBITMQ if for_rabbitmq else "forebay",
        "version": RABBITMQ_VERSION if for_rabbitmq else __version__,
        "forebay": __version__,
        "platform": "Python",
        "node": node or "forebay",
        "cluster_name": "forebay",
        "information": "Licensed under the Apache License 2.0",
    }
    if is_refused:
        properties[REFUSED] = True
    opened.properties = properties
    return opened
