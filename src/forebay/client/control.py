"""A client for administrators: operations on a running broker, over the block protocol.

    with ControlClient.connect("localhost:5672", "admin", "secret") as client:
        client.run("vhost.add", vhost="test")
        for queue in client.items("queue.list", vhost="test"):
            ...

docs/reference/control.md lists the operations and their arguments. What the broker refuses is a RequestError, with its
words.
"""

from __future__ import annotations

from collections.abc import Iterator

from forebay.client.blocks import BlockClient


class ControlClient(BlockClient):
    """One connection of an administrator."""

    vhost = ""  # it enters none: operations name theirs, and a vhost's limits are not for whoever sets them

    def run(self, operation: str, **arguments: object) -> dict[str, object]:
        """The answer to one operation, whose change is on disk by then. Arguments that are None are left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._ask({"op": "control", "do": operation, **given})

    def items(self, operation: str, **arguments: object) -> Iterator[dict[str, object]]:
        """All items of an operation that answers in pages, as they come.

        Between two pages the broker goes on: what comes or goes meanwhile may be missed, or be there twice.
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
