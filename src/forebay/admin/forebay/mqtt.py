"""/api/forebay: MQTT sessions, their subscriptions, and retained messages."""

from __future__ import annotations

from typing import Final

from forebay.admin.forebay.operation_routes import OperationRoute, add_operations
from forebay.admin.web.router import RouteGroup

SESSION: Final = "/sessions/{vhost:name}/{client_id:name}"
RETAINED: Final = "/retained/{vhost:name}/message"
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])
add_operations(
    router,
    (
        OperationRoute("/sessions/{vhost:name}", "session.list"),
        OperationRoute(SESSION, "session.show"),
        OperationRoute(f"{SESSION}/messages", "session.messages"),
        OperationRoute(f"{SESSION}/connection", "session.close", method="DELETE"),
        OperationRoute(SESSION, "session.delete", method="DELETE"),
        OperationRoute("/subscriptions/{vhost:name}", "subscription.list"),
        OperationRoute("/retained/{vhost:name}", "retained.list"),
        OperationRoute(RETAINED, "retained.show", defaults={"body_octets_max": 128 << 10}),
        OperationRoute(RETAINED, "retained.delete", method="DELETE"),
    ),
)
