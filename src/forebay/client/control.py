"""A client for administrators: operations on a running broker, over the block protocol.

    with ControlClient.connect("localhost:5672", "admin", "secret") as client:
        client.run("vhost.add", vhost="test")
        for queue in client.items("queue.list", vhost="test"):
            ...

docs/reference/control.md lists the operations and their arguments. If the broker refuses an operation, the client
raises RequestError with the broker's text.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.client.blocks import BlockClient


class ControlClient(BlockClient):
    """An administrator's connection."""

    vhost = ""  # enters no vhost: operations name their vhost, and its limits do not apply to its administrators

    def run(self, operation: str, **arguments: object) -> dict[str, object]:
        """Run one operation and return its answer.

        The change is on disk by then. Arguments that are None are left out.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._ask({"op": "control", "do": operation, **given})

    def items(self, operation: str, **arguments: object) -> Iterator[dict[str, object]]:
        """Yield all items of an operation that answers in pages.

        The pages are not a snapshot: items added or removed meanwhile may be missing or occur twice.
        """
        place: object = None
        while True:
            answer = self.run(operation, **{**arguments, "from": place})
            listed = answer.get("items")
            assert isinstance(listed, list), f"{operation} answers no list"
            yield from listed
            place = answer.get("next")
            if place is None:
                return
