"""/api/forebay: MQTT sessions, their subscriptions, and retained messages."""

from __future__ import annotations

from typing import Final

from forebay.admin.forebay.answers import EMPTY, OBJECT
from forebay.admin.forebay.operation_routes import OperationRoute, add_operations, list_route
from forebay.admin.web.router import RouteGroup

SESSION: Final = "/sessions/{vhost:name}/{client_id:name}"
RETAINED: Final = "/retained/{vhost:name}/message"
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])
add_operations(
    router,
    (
        list_route("/sessions/{vhost:name}", "session.list"),
        OperationRoute(SESSION, "session.show", OBJECT),
        list_route(f"{SESSION}/messages", "session.messages"),
        OperationRoute(f"{SESSION}/connection", "session.close", EMPTY, "DELETE"),
        OperationRoute(SESSION, "session.delete", OBJECT, "DELETE"),
        list_route("/subscriptions/{vhost:name}", "subscription.list"),
        list_route("/retained/{vhost:name}", "retained.list"),
        OperationRoute(RETAINED, "retained.show", OBJECT, defaults={"body_octets_max": 128 << 10}),
        OperationRoute(RETAINED, "retained.delete", EMPTY, "DELETE"),
    ),
)
