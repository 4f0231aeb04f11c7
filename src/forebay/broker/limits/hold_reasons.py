"""Every reason for which a connection is held: its client is not read, or is given nothing more.

A reason is the position of its name in `SENTENCES`. A connection has one bit for each reason for which it is not read.
"""

from __future__ import annotations

from typing import Final

# The client is not read.
LOGIN: Final = 0
SHUTDOWN: Final = 1
SEND_BACKLOG: Final = 2
TURN_WORK: Final = 3
SEARCH_BUDGET: Final = 4
WIDE_DELIVERY: Final = 5
CONSUMERS_WAIT: Final = 6
QUEUE_SHARE: Final = 7
MEMORY_ALARM: Final = 8
DISK_ALARM: Final = 9
DISK_SILENT: Final = 10
DISK_BEHIND: Final = 11
SLOW_SUBSCRIBER: Final = 12
SESSION_QUOTA: Final = 13
RATE_LIMIT: Final = 14
# The client is given nothing more, and is read.
SEND_BUFFER: Final = 15
SEND_SHARE: Final = 16

SENTENCES: Final = {
    "login": "The client waits until its password, token or request has been checked outside of the broker's turn.",
    "shutdown": "The broker stops.",
    "send_backlog": "Much is to be sent to other clients first; the client is read again in the next turn.",
    "turn_work": "The client has used up its work of this turn, such as declarations; the rest comes in the next turn.",
    "search_budget": "The search for the recipients of a publish, or for retained messages, goes on in the next turn.",
    "wide_delivery": "A message of the client goes to very many subscribers, and not all of them have it yet.",
    "consumers_wait": "Consumers with a small prefetch wait for their turn, so publishers bring in less in a turn.",
    "queue_share": "A queue that the client publishes to, or its vhost, is over its share: one read a second is left.",
    "memory_alarm": "The broker uses more than memory_octets_max: no publisher is read.",
    "disk_alarm": "The disk has less room than disk_free_min_octets, or is full: no publisher is read.",
    "disk_silent": "The disk does not answer, and too much waits for it: no publisher is read.",
    "disk_behind": "More is accepted than the disk has written so far: no publisher is read.",
    "slow_subscriber": "An MQTT client that gets the client's messages does not read fast enough.",
    "session_quota": "An MQTT session that gets the client's messages is over mqtt_session_octets_max.",
    "rate_limit": "The client, or its user, publishes faster than its rate limit.",
    "send_buffer": "The client does not read: more waits for it than send_buffer_octets_max.",
    "send_share": "More waits for the client than its share of send_buffers_octets_max.",
}
NAMES: Final = list(SENTENCES)
COUNT: Final = 17

# The broker lacks something that every publisher needs.
RESOURCES: Final = (MEMORY_ALARM, DISK_ALARM, DISK_SILENT, DISK_BEHIND)
# The rest of what the client has sent comes in the next turn.
NEXT_TURN: Final = (TURN_WORK, SEARCH_BUDGET, WIDE_DELIVERY, CONSUMERS_WAIT)

# Bits of `Link.holds`.
PUT_OFF: Final = 1 << TURN_WORK | 1 << SEARCH_BUDGET | 1 << WIDE_DELIVERY | 1 << CONSUMERS_WAIT
CHOKED: Final = 1 << MEMORY_ALARM | 1 << DISK_ALARM | 1 << DISK_SILENT | 1 << DISK_BEHIND | 1 << QUEUE_SHARE
FOR_SUBSCRIBER: Final = 1 << SLOW_SUBSCRIBER | 1 << SESSION_QUOTA
RATE_LIMITED: Final = 1 << RATE_LIMIT
UNREAD: Final = CHOKED | FOR_SUBSCRIBER | RATE_LIMITED  # the keepalive must not count the silence of the client
