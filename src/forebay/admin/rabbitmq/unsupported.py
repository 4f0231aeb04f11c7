"""Paths of RabbitMQ's management API that are not answered here, each with the reason that its callers are told.

A path of something that can exist nowhere here is answered with 404: nothing of that name is there, so that a tool that
deletes it is right to go on. What a caller could take for done or gone, though it is neither, is answered with 501.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ABSENT: Final = 404
WRONG_METHOD: Final = 405
UNSUPPORTED: Final = 501
SEGMENT: Final = re.compile(r"\\\{[a-z]+\\\}")

ETS: Final = "tables of Erlang's virtual machine, which this broker does not run on: GET /api/nodes/{node}/memory"
PROCESSES: Final = "processes of Erlang's virtual machine, which this broker does not run on: GET /api/forebay/stats"
FEDERATION: Final = "there are no federation links here"
SHOVELS: Final = "there are no shovels here"
STREAM_CLIENTS: Final = "nobody speaks RabbitMQ's stream protocol here: streams are read over AMQP, GET /api/consumers"
SUPER_STREAMS: Final = "nobody speaks RabbitMQ's stream protocol here: declare a queue of type stream for each part"
TRACKING: Final = "readers of a stream are groups of it: POST /api/forebay/operations/group.list"
TRACES: Final = "the broker writes no files of traces: GET /api/forebay/history follows messages"
PROTECTION: Final = "RabbitMQ answers no GET here either: protected_from_deletion of GET /api/vhosts/{vhost} says it"


@dataclass(frozen=True, slots=True)
class UnsupportedPath:
    """One path of RabbitMQ's.

    path     as it stands in RabbitMQ's dispatcher, with names in braces
    methods  that RabbitMQ answers there
    status   of the answer here
    reason   that the answer gives
    """

    path: str
    methods: tuple[str, ...]
    status: int
    reason: str


PATHS: Final = (
    UnsupportedPath("/api/nodes/{node}/memory/ets", ("GET",), UNSUPPORTED, ETS),
    UnsupportedPath("/api/nodes/{node}/memory/ets/relative", ("GET",), UNSUPPORTED, ETS),
    UnsupportedPath("/api/nodes/{node}/memory/ets/{filter}", ("GET",), UNSUPPORTED, ETS),
    UnsupportedPath("/api/nodes/{node}/memory/ets/{filter}/relative", ("GET",), UNSUPPORTED, ETS),
    UnsupportedPath("/api/vhosts/{vhost}/deletion/protection", ("GET",), WRONG_METHOD, PROTECTION),
    UnsupportedPath("/api/federation-links", ("DELETE",), WRONG_METHOD, FEDERATION),
    UnsupportedPath("/api/federation-links/state/down", ("DELETE",), WRONG_METHOD, FEDERATION),
    UnsupportedPath("/api/federation-links/{vhost}", ("DELETE",), WRONG_METHOD, FEDERATION),
    UnsupportedPath("/api/federation-links/{vhost}/state/down", ("DELETE",), WRONG_METHOD, FEDERATION),
    UnsupportedPath("/api/federation-links/vhost/{vhost}/{id}/{node}/restart", ("GET", "DELETE"), ABSENT, FEDERATION),
    UnsupportedPath("/api/shovels/vhost/{vhost}/{name}", ("GET", "DELETE"), ABSENT, SHOVELS),
    UnsupportedPath("/api/shovels/vhost/{vhost}/{name}/restart", ("GET", "DELETE"), ABSENT, SHOVELS),
    UnsupportedPath("/api/stream/connections/{vhost}/{connection}", ("GET", "DELETE"), ABSENT, STREAM_CLIENTS),
    UnsupportedPath("/api/stream/connections/{vhost}/{connection}/consumers", ("GET",), ABSENT, STREAM_CLIENTS),
    UnsupportedPath("/api/stream/connections/{vhost}/{connection}/publishers", ("GET",), ABSENT, STREAM_CLIENTS),
    UnsupportedPath("/api/stream/super-streams/{vhost}/{name}", ("PUT",), UNSUPPORTED, SUPER_STREAMS),
    UnsupportedPath("/api/stream/{vhost}/{queue}/tracking", ("GET",), UNSUPPORTED, TRACKING),
    UnsupportedPath("/api/top/{node}", ("GET",), UNSUPPORTED, PROCESSES),
    UnsupportedPath("/api/top/ets/{node}", ("GET",), UNSUPPORTED, ETS),
    UnsupportedPath("/api/process/{pid}", ("GET",), UNSUPPORTED, PROCESSES),
    UnsupportedPath("/api/traces", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/traces/node/{node}", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/traces/{vhost}", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/traces/node/{node}/{vhost}", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/traces/{vhost}/{name}", ("GET", "PUT", "DELETE"), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/traces/node/{node}/{vhost}/{name}", ("GET", "PUT", "DELETE"), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/trace-files", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/trace-files/node/{node}", ("GET",), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/trace-files/{name}", ("GET", "DELETE"), UNSUPPORTED, TRACES),
    UnsupportedPath("/api/trace-files/node/{node}/{name}", ("GET", "DELETE"), UNSUPPORTED, TRACES),
)
MATCHERS: Final = tuple((re.compile(SEGMENT.sub("[^/]+", re.escape(each.path))), each) for each in PATHS)


def unsupported_at(method: str, path: str) -> UnsupportedPath | None:
    """Return the path of RabbitMQ's that a request asks for and that is not answered here; None for any other."""
    asked = "GET" if method == "HEAD" else method
    for pattern, each in MATCHERS:
        if asked in each.methods and pattern.fullmatch(path):
            return each
    return None
