"""A connection in words: its client's library, and why it is slow or held back."""

from __future__ import annotations

from typing import Final

from forebay.management.cluster_words import waits_of
from forebay.management.explain.reasons import duration
from forebay.message.shown import plain
from forebay.node.link import CHOKED, HELD, INDEBTED
from forebay.routing.exchange import text
from forebay.server.app import App
from forebay.server.net import Connection

LATE_US: Final = 500_000  # of a commit that other nodes do not have: less is said of nobody


def library_of(described: dict[str, object]) -> str:
    """The client's library and its version, as it says; empty where it says nothing."""
    properties = plain(described.get("client"))
    if not isinstance(properties, dict):
        return ""
    return " ".join(str(properties[name]) for name in ("product", "version") if properties.get(name))


def why_slow(app: App, connection: Connection) -> str:
    """The reason for which a connection is not read, or its client does not keep up; empty where there is none."""
    pressure = app.pressure
    queue = pressure.slowed.get(connection)
    if queue is not None:
        return f"its publishes are held back: {pressure.shares.reason(queue)}"
    if connection.holds & CHOKED:
        return f"its publishes are held back: {lack_of(app)}"
    if connection.holds & HELD:
        held = pressure.held_publishers.held.get(connection)
        reader = "an MQTT client" if held is None else f"the MQTT client '{text(held.client_id)}'"
        return f"its publishes are held back: {reader} does not read them fast enough"
    if connection.holds & INDEBTED:
        return "its publishes are held back: it sends faster than its rate limit"
    since_us = pressure.slow.get(connection)
    if since_us is not None:
        waiting = connection.waiting_octets() / (1 << 20)
        # A time of day would be the broker's, beside the reader's own on the page.
        return f"the client has not read for {duration(app.now_us() - since_us)}: {waiting:.1f} MiB wait for it"
    return unconfirmed(app, connection)


def unconfirmed(app: App, connection: Connection) -> str:
    """The node of a cluster that the confirms of a connection wait for; empty where none do."""
    cluster, session = app.control.cluster, connection.session
    if cluster is None or session is None or app.histograms.replicating_us() < LATE_US:
        return ""
    if not any(each["unconfirmed"] for each in session.describe_channels()):
        return ""
    waits = waits_of(cluster.status())
    return f"its confirms wait: {waits}" if waits else ""


def lack_of(app: App) -> str:
    """The resource of which the broker has too little."""
    lack = app.pressure.lack()
    return f"the broker is {lack}" if lack else "the disk does not keep up"
