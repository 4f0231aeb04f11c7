"""The queues that a simulated client may declare, and the addresses that lead there."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "amq.topic"
KEYS: Final = ("a", "b")
PATTERNS: Final = (*KEYS, "*")
DEAD: Final = "dead."
DEAD_LETTERS: Final = "x-dead-letter-exchange"
DEAD_KEY: Final = "x-dead-letter-routing-key"
REJECTS: Final = {"x-overflow": "reject-publish"}
ADDRESSED: Final = "addressed"  # clients of MQTT publish to it
GOVERNED: Final = "governed"  # policies are about it
SHARES: Final = {"jobs": "$share/g/jobs/+", "tasks": "$share/h/tasks/+"}  # by the first level of their topics
READERS, KEEPERS = "readers", "keepers"  # groups of a stream: the latter's client says itself how far it is
TRANSIENT: Final = "transient"  # it ends with the process
GROUPED: Final = "grouped"  # groups take work from it, each all of it
GROUPS: Final = ("left", "right")
OWN: Final = "own"  # exclusive: it ends with its connection, of which there is one in each vhost

LAST_VALUE_KEY: Final = "x-last-value-key"
LATEST_KEYS: Final = 3

# The queues there may be: name, arguments. Each with dead letters has a queue of its own for them.
KINDS: Final[dict[str, dict[str, object]]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
    "priority": {"x-max-priority": 4},
    "short": {"x-max-length": 6},
    "full": {"x-max-length": 5, **REJECTS},
    "ttl": {"x-queue-type": "quorum", "x-message-ttl": 3000},
    "single": {"x-single-active-consumer": True},
    "latest": {LAST_VALUE_KEY: f"octets % {LATEST_KEYS}"},
    GOVERNED: {},
    TRANSIENT: {},
    GROUPED: {},
    OWN: {},
    "letters": {DEAD_LETTERS: "", DEAD_KEY: DEAD + "letters"},
    "limited": {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 2000,
        DEAD_LETTERS: "",
        DEAD_KEY: DEAD + "limited",
    },
    "counted": {
        "x-max-deliveries": 2,
        "x-max-cancels": 2,
        DEAD_LETTERS: "",
        DEAD_KEY: DEAD + "counted",
    },
    "once": {"x-semantics": "at-most-once"},
    "brief": {"x-message-ttl": 1000, "x-max-length": 8, DEAD_LETTERS: "", DEAD_KEY: DEAD + "brief"},
    "kept": {
        "x-dead-letter-strategy": "at-least-once",
        "x-message-ttl": 5000,
        "x-max-length": 20,
        **REJECTS,
        DEAD_LETTERS: "",
        DEAD_KEY: DEAD + "kept",
    },
}
# Views of the stream; a run has them where its setup says so.
VIEWED, PICKED = "viewed", "picked"
PICKED_LABEL: Final = "odd"
KINDS.update(
    {
        VIEWED: {"x-source": "stream", "x-recovery-point": "now"},
        PICKED: {
            "x-queue-type": "quorum",
            "x-source": "stream",
            "x-recovery-point": "now",
            "x-filter": f"header.label = '{PICKED_LABEL}'",
        },
    }
)
VIEWS: Final = (VIEWED, PICKED)
LIMITED_DELIVERIES: Final = ("counted", "once")  # no end of the broker delivers a message of these once more
USUAL: Final = tuple(kind for kind in KINDS if kind not in (*VIEWS, *LIMITED_DELIVERIES))
OVER_ONE_LOG: Final = ("stream", "classic", *VIEWS)
# Of the queues for dead letters, where they have any.
DEAD_ARGUMENTS: Final[dict[str, dict[str, object]]] = {"kept": {"x-max-length": 3, **REJECTS}}


def rejects(name: str) -> bool:
    """Whether the queue refuses what it has no room for."""
    return "x-overflow" in KINDS.get(name, {})


def matches(pattern: str, key: str) -> bool:
    """Whether a binding's pattern matches a routing key; with `/` for `.`, as clients of MQTT have it."""
    return pattern == key or (pattern == "*" and "/" not in key)


def shared(filter: str) -> str:
    """The topic filter in that of a shared subscription."""
    return filter.split("/", 2)[2]


def fits(pattern: str, topic: str) -> bool:
    """Whether a topic filter, that of no shared subscription, matches a topic."""
    if pattern == "+":
        return "/" not in topic
    return pattern == topic or (pattern.endswith("/+") and topic.startswith(pattern[:-1]))
