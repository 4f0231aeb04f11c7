"""A connection in words: its client's library, and why it is slow or held back."""

from __future__ import annotations

from typing import Final

from forebay.management.cluster_words import waits_of
from forebay.message.shown import plain
from forebay.server.broker_view import BrokerView
from forebay.server.net import Connection

LATE_US: Final = 500_000  # of a commit that other nodes do not have: less is said of nobody


def library_of(described: dict[str, object]) -> str:
    """The client's library and its version, as it says; empty where it says nothing."""
    properties = plain(described.get("client"))
    if not isinstance(properties, dict):
        return ""
    return " ".join(str(properties[name]) for name in ("product", "version") if properties.get(name))


def why_slow(app: BrokerView, connection: Connection) -> str:
    """The reason for which a connection is not read, or its client does not keep up; empty where there is none."""
    return app.holds.lasting(connection) or unconfirmed(app, connection)


def unconfirmed(app: BrokerView, connection: Connection) -> str:
    """The node of a cluster that the confirms of a connection wait for; empty where none do."""
    cluster, session = app.control.cluster, connection.session
    if cluster is None or session is None or app.histograms.replicating_us() < LATE_US:
        return ""
    if not any(each["unconfirmed"] for each in session.describe_channels()):
        return ""
    waits = waits_of(cluster.status())
    return f"its confirms wait: {waits}" if waits else ""
