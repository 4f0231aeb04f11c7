"""What answers look like, for the OpenAPI document alone: no answer is checked against this while the broker runs."""

from __future__ import annotations

from typing import Annotated, Any, Generic, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

Item = TypeVar("Item")
Object = dict[str, Any]


class Page(TypedDict, Generic[Item]):
    """A page of a list."""

    filtered_count: Annotated[int, Field(description="Items that the filter on names lets pass.")]
    item_count: Annotated[int, Field(description="Items of this page.")]
    items: list[Item]
    page: int
    page_count: int
    page_size: int
    total_count: Annotated[int, Field(description="Items without the filter.")]


class Check(TypedDict):
    """What a health check finds."""

    status: Annotated[str, Field(description="ok or failed.")]
    reason: Annotated[NotRequired[str], Field(description="Why it failed.")]


def answers(model: Any, note: str) -> dict[int | str, dict[str, Any]]:
    """What a route answers; the errors that all may answer with are put in by `openapi.py`."""
    return {200: {"model": model, "description": note}}


OVERVIEW = answers(Object, "The broker at a glance.")
CLUSTER_NAME = answers(Object, "The name.")
NODES = answers(list[Object] | Page[Object], "The nodes.")
ONE_NODE = answers(Object, "The node.")
MEMORY = answers(Object, "What the memory is used for.")
CONNECTIONS = answers(list[Object] | Page[Object], "Connections.")
USER_CONNECTIONS = CONNECTIONS
ONE_CONNECTION = answers(Object, "The connection.")
CHANNELS = answers(list[Object] | Page[Object], "Channels.")
ONE_CHANNEL = answers(Object, "The channel.")
CONSUMERS = answers(list[Object] | Page[Object], "Consumers.")
QUEUES = answers(list[Object] | Page[Object], "Queues.")
ONE_QUEUE = answers(Object, "The queue.")
EXCHANGES = answers(list[Object] | Page[Object], "Exchanges.")
ONE_EXCHANGE = answers(Object, "The exchange.")
BINDINGS = answers(list[Object] | Page[Object], "Bindings.")
ONE_BINDING = answers(Object, "The binding.")
CHECK = {**answers(Check, "The answer is yes."), 503: {"model": Check, "description": "The answer is no."}}
EXTENSIONS = answers(list[Object], "None.")
FEATURES = answers(list[Object] | Page[Object], "The flags.")
NOTHING_LISTED = answers(list[Object], "None.")
AUTH = answers(Object, "No OAuth.")
