"""The table of commands that pass their arguments to one operation; `from_rows.py` makes them.

What the operation must have are the arguments of a command, what it may have its options; the requests of operations
(`management/requests`) describe them. `group.seek` is `forebay group seek`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

POLICY: Final = "policy pattern apply_to priority definition"


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command that runs one operation. Prints the answer field by field, unless it lists or changes something.

    example     arguments of the command in its example
    positional  optional parameter that is an argument, not an option
    columns     columns of a list, separated by blanks
    question    asked before a change, unless --yes or the option of parameter `sure` is given; {queue} is an argument
    said        printed after a change; {queue} is an argument or a field of the answer
    """

    help: str
    example: str = ""
    positional: str = ""
    columns: str = ""
    question: str = ""
    sure: str = ""
    said: str = ""


ROWS: Final = {
    "vhost.list": CommandRow(
        "List the vhosts with their numbers of objects and messages.",
        columns="vhost connections exchanges queues ready delayed description",
    ),
    "vhost.add": CommandRow("Create a vhost.", "shop --default-queue-type quorum", said="vhost {vhost} created"),
    "vhost.set": CommandRow(
        "Change the given settings, and keep the others.", "shop --queues-max 1000", said="vhost {vhost} is changed"
    ),
    "vhost.delete": CommandRow(
        "Delete a vhost with everything in it, and close its connections.",
        "shop --yes",
        question="Delete vhost {vhost} with all its queues and messages?",
        said="vhost {vhost} deleted",
    ),
    "user.list": CommandRow("List the users.", columns="name tags configured"),
    "user.delete": CommandRow(
        "Delete a user with its permissions.",
        "ann --yes",
        question="Delete user {user} with its permissions?",
        said="user {user} deleted",
    ),
    "permission.list": CommandRow(
        "List permissions; users of the configuration without any may do everything.",
        "--of ann",
        columns="user vhost configure write read",
    ),
    "permission.set": CommandRow(
        "Let a user enter a vhost, with permissions by regular expressions over names.",
        "ann '^shop[.]' '.*' '.*' --vhost shop",
        said="permissions of {user} changed",
    ),
    "permission.clear": CommandRow(
        "Delete a user's permissions in a vhost, which it then cannot enter.",
        "ann --vhost shop",
        said="permissions of {user} deleted",
    ),
    "topic_permission.list": CommandRow(
        "List restrictions on topic exchanges.", "--of ann", columns="user vhost exchange write read"
    ),
    "topic_permission.set": CommandRow(
        "Restrict a user to the routing keys of a topic exchange that match these patterns.",
        "ann amq.topic '^kitchen[.]' '.*'",
        said="topic permissions of {user} changed",
    ),
    "topic_permission.clear": CommandRow(
        "Lift a user's restriction on a topic exchange, or on all.",
        "ann amq.topic",
        positional="exchange",
        said="restrictions of {user} deleted",
    ),
    "policy.list": CommandRow("List the policies.", columns=POLICY),
    "policy.set": CommandRow(
        "Set or replace a policy; it applies at once.",
        "short '^tmp[.]' '{\"message-ttl\": 60000}' --apply-to queues",
        said="policy {policy} set",
    ),
    "policy.clear": CommandRow("Delete a policy.", "short", said="policy {policy} deleted"),
    "operator_policy.list": CommandRow("List the operator policies.", columns=POLICY),
    "operator_policy.set": CommandRow(
        "Set or replace an operator policy; it applies at once.",
        "most '.*' '{\"max-length\": 1000000}'",
        said="policy {policy} set",
    ),
    "operator_policy.clear": CommandRow("Delete an operator policy.", "most", said="policy {policy} deleted"),
    "exchange.list": CommandRow(
        "List the exchanges.", columns="exchange type bindings durable auto_delete internal alternate"
    ),
    "exchange.declare": CommandRow(
        "Declare an exchange, or check that it exists with the same properties.",
        "shop --type topic",
        said="exchange {exchange} declared",
    ),
    "exchange.delete": CommandRow(
        "Delete an exchange with its bindings.",
        "shop --if-unused",
        question="Delete exchange {exchange} with its bindings?",
        sure="if_unused",
        said="exchange {exchange} deleted",
    ),
    "binding.list": CommandRow(
        "List bindings.", "--exchange shop", columns="exchange destination destination_type routing_key arguments"
    ),
    "binding.add": CommandRow(
        "Bind a queue or an exchange to an exchange.",
        "shop orders --key 'order.*'",
        said="{destination} is bound to exchange {exchange}",
    ),
    "binding.delete": CommandRow(
        "Delete a binding; key and arguments must be the same as when it was made.",
        "shop orders --key 'order.*'",
        said="{destination} is not bound so to exchange {exchange}",
    ),
    "queue.list": CommandRow(
        "List the queues with their messages.",
        columns="queue type ready unacked consumers groups octets durable dead_letters_waiting",
    ),
    "queue.show": CommandRow("Show one queue: statistics, arguments, and its groups.", "orders"),
    "queue.explain": CommandRow(
        "Show which publishers are not read because of a queue, or because the broker lacks something.",
        "orders",
        columns="connection peer user reason since_ms text",
    ),
    "queue.declare": CommandRow(
        "Declare a queue, or check that it exists with the same properties.",
        "orders --type quorum --arguments '{\"x-max-length\": 1000}'",
        said="queue {queue} declared",
    ),
    "queue.delete": CommandRow(
        "Delete a queue with its messages.",
        "orders --if-empty",
        question="Delete queue {queue} with its messages?",
        sure="if_empty",
        said="queue {queue} deleted with {messages} messages",
    ),
    "queue.purge": CommandRow(
        "Delete all ready messages of a queue.",
        "orders --yes",
        question="Take away all messages that are ready in queue {queue}?",
        said="{messages} messages deleted from queue {queue}",
    ),
    "queue.pause": CommandRow(
        "Deliver nothing from a queue until it is resumed; it takes publishes.",
        "orders",
        said="queue {queue} is paused",
    ),
    "queue.resume": CommandRow("Deliver from a paused queue again.", "orders", said="queue {queue} delivers again"),
    "queue.truncate": CommandRow(
        "Delete a stream's messages below an offset, except those that a reader holds.",
        "prices 1000 --yes",
        question="Forget the messages of {queue} below offset {below}?",
        said="{queue} starts at offset {start}",
    ),
    "stream.show": CommandRow("Show a queue's log: first and last offset and time, size, and files.", "prices"),
    "consumer.list": CommandRow(
        "List consumers.",
        "--queue orders",
        columns="queue group consumer connection channel held priority acknowledges exclusive filter",
    ),
    "group.list": CommandRow(
        "List groups with their positions.",
        "--queue prices",
        columns="queue group filter kind ready leased consumers cursor committed seconds_left",
    ),
    "group.commit": CommandRow(
        "Set the offset at which a stream group resumes.",
        "prices audit 1000",
        said="group {group} of {queue} resumes at {offset}",
    ),
    "group.release": CommandRow(
        "End a reader's hold; messages that only it keeps are deleted.",
        "flights spark-1",
        said="group {group} no longer holds messages of {queue}",
    ),
    "group.delete": CommandRow(
        "Delete a work or stream group; messages that only it keeps are deleted.",
        "orders audit --yes",
        question="Delete group {group} of {queue}, with what only it still wants?",
        said="group {group} of {queue} deleted",
    ),
    "group.seek": CommandRow(
        "Move a group to another position in the log.",
        "prices audit first",
        said="group {group} of {queue} continues at {to}",
    ),
    "group.pause": CommandRow(
        "Deliver nothing to a group until it is resumed.", "orders audit", said="group {group} of {queue} is paused"
    ),
    "group.resume": CommandRow(
        "Deliver to a paused group again.", "orders audit", said="group {group} of {queue} gets messages again"
    ),
    "lease.list": CommandRow(
        "List the messages that consumers hold, in ranges.",
        "--queue orders",
        columns="queue group consumer connection first count left deliveries until_ms",
    ),
    "lease.release": CommandRow(
        "Return a message from its consumer to the queue, which delivers it again.",
        "orders 17",
        said="message {offset} returned to {queue}",
    ),
    "lease.extend": CommandRow(
        "Let a consumer hold a message longer.",
        "orders 17 --extend-ms 60000",
        said="message {offset} of {queue} may be held longer",
    ),
    "connection.list": CommandRow(
        "List the connections of all protocols.", columns="id peer protocol vhost user client_id"
    ),
    "connection.explain": CommandRow(
        "Show why a connection is not read, or is sent nothing.", "7", columns="reason since_ms until_ms text"
    ),
    "connection.close": CommandRow(
        "Close a connection, and tell its client the reason.",
        "7 --reason 'maintenance' --yes",
        question="End connection {id}?",
        said="connection {id} closed",
    ),
    "channel.list": CommandRow(
        "List the channels of AMQP connections, with their unsettled messages.",
        "--connection 7",
        columns="connection channel vhost user consumers unacked prefetch confirms unconfirmed",
    ),
    "session.list": CommandRow(
        "List the sessions with their waiting messages.",
        "--offline",
        columns="client_id user connected durable subscriptions waiting inflight dropped expiry_s",
    ),
    "session.show": CommandRow("Show a session: subscriptions, messages in flight, and its will.", "kitchen-7"),
    "session.close": CommandRow(
        "Close a session's connection; a durable session remains, and its client may reconnect.",
        "kitchen-7 --yes",
        question="End the connection of {client_id}?",
        said="connection of {client_id} closed",
    ),
    "session.delete": CommandRow(
        "Delete a session with its subscriptions and waiting messages.",
        "kitchen-7 --yes",
        question="Forget the session of {client_id} with all that waits for it?",
        said="session {client_id} deleted with {waiting} messages",
    ),
    "subscription.list": CommandRow(
        "List subscriptions.",
        "--topic kitchen/temperature",
        columns="client_id connected filter qos no_local retain_as_published identifier",
    ),
    "retained.list": CommandRow(
        "List retained messages.",
        "'kitchen/#'",
        positional="filter",
        columns="topic octets qos protocol stored_ms expires_ms durable",
    ),
    "retained.delete": CommandRow(
        "Delete a topic's retained message; subscribers are not told.",
        "kitchen/temperature --yes",
        question="Forget the retained message of {topic}?",
        said="retained message of {topic} deleted",
    ),
    "delayed.list": CommandRow(
        "List the delayed messages, the next one first.",
        columns="number key due_ms cron time_zone exchange topic octets",
    ),
    "delayed.cancel": CommandRow(
        "Cancel a delayed message.",
        "reminder-7 --yes",
        question="Forget the message {name}?",
        said="message {name} cancelled",
    ),
    "delayed.publish": CommandRow("Publish a delayed message at once.", "reminder-7", said="message {name} published"),
    "transaction.list": CommandRow(
        "List the queries, with each one's last batch and the staged rows of the next.",
        columns="query batch state rows unroutable staged",
    ),
    "trace.list": CommandRow("List the traces.", columns="name pattern where events events_max seen"),
    "trace.start": CommandRow(
        "Record the events of some queues' messages: published, delivered, acked, returned, rejected, died.",
        "slow --pattern '^orders' --where '/total > 100'",
        positional="name",
        said="trace {name} started: it traces {queues} queues",
    ),
    "trace.show": CommandRow(
        "Show the events of a trace, the oldest first.",
        "slow",
        positional="name",
        columns="time_ms type queue offset message_id group connection consumer detail",
    ),
    "trace.stop": CommandRow(
        "Stop a trace and delete its events.", "slow", positional="name", said="trace {name} stopped"
    ),
    "cluster.transfer": CommandRow(
        """Transfer leadership to another member, which must be in sync.

        Clients are disconnected, and reconnect to the new leader.
        """,
        "b",
        said="{node} leads now",
    ),
    "cluster.remove": CommandRow(
        """Remove a member from the cluster.

        Refused if fewer than min_in_sync members would remain in sync. A removed node that still runs joins again as a
        new member while there is room.
        """,
        "c --yes",
        question="Take {node} out of the cluster?",
        said="{node} removed from the cluster",
    ),
    "cluster.drain": CommandRow(
        """Prepare a member for a stop: it hands over leadership and sends its clients to other nodes.

        Refused if fewer than min_in_sync members would remain in sync without it. It keeps its data, and stays drained
        until it restarts or is undrained.
        """,
        "b",
        said="{node} drained",
    ),
    "cluster.undrain": CommandRow(
        "Let a drained member accept clients again.", "b", said="{node} accepts clients again"
    ),
    "config.reload": CommandRow(
        "Make a running broker read its configuration again; options that need a restart are named."
    ),
    "webhook.list": CommandRow(
        "List the webhooks, with events waiting, sent, failed and dropped.",
        columns="name url waiting sent failed dropped breaker last_error",
    ),
}
