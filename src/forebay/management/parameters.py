"""The parameters of all operations, each described once: for HTTP, the command line and their pages.

They stand here and not beside the functions because nothing of a broker is loaded with them: a command does not wait
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TEXT: Final = "text"
WHOLE: Final = "whole number"
FLAG: Final = "true or false"
TABLE: Final = "object"
TEXTS: Final = "list of texts"
RANGES: Final = "list of offsets and of pairs [first, end]"
ANY: Final = "any value"

OFFSET_MAX: Final = 1 << 62
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
SCANNED_AT_ONCE: Final = 10_000  # messages that one request looks at


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operation.

    default      what it is where nobody says; None makes it optional
    least, most  of a whole number; None: no bound
    metavar      what stands for its value on the command line; where it is empty, its type or else its name says it
    """

    name: str
    type: str
    doc: str
    required: bool = True
    default: object = None
    least: int | None = None
    most: int | None = None
    metavar: str = ""

    def sentence(self) -> str:
        """Its description, without the full stop."""
        return self.doc[:1].upper() + self.doc[1:]


def optional(name: str, type: str, doc: str, default: object = None, metavar: str = "") -> Parameter:
    """A parameter that may be left out, without bounds."""
    return Parameter(name, type, doc, False, default, metavar=metavar)


VHOST: Final = optional("vhost", TEXT, "the vhost", "/")
FROM: Final = Parameter("from", WHOLE, "how many to skip: `next` of the page before", False, 0, 0)
LIMIT: Final = Parameter("limit", WHOLE, f"how many to return, up to {LIMIT_MAX}", False, LIMIT_DEFAULT, 1, LIMIT_MAX)
PAGE: Final = (FROM, LIMIT)
LISTED: Final = (VHOST, *PAGE)

QUEUE: Final = Parameter("queue", TEXT, "name of the queue")
OFFSET: Final = Parameter("offset", WHOLE, "the message's offset", least=0, most=OFFSET_MAX, metavar="OFFSET")
WHERE: Final = optional(
    "where", TEXT, "only messages that match this filter; see docs/reference/filters.md", "", "FILTER"
)
OFFSETS: Final = optional("offsets", RANGES, "only those of these offsets")
BODY: Final = Parameter("body_octets_max", WHOLE, "octets of each body to show", False, 1024, 0, 128 << 10)
FIRST: Final = Parameter(
    "from", WHOLE, "the first offset to look at: `next` of the answer before", False, 0, 0, OFFSET_MAX
)
SCAN: Final = Parameter(
    "scan", WHOLE, "how many messages one request looks at, at most", False, SCANNED_AT_ONCE, 1, SCANNED_AT_ONCE
)
PORTION: Final = (FIRST, LIMIT, SCAN)
ONE_QUEUE: Final = (VHOST, QUEUE)
MESSAGES: Final = (*ONE_QUEUE, FIRST, LIMIT, WHERE, BODY, SCAN)
OF_QUEUE: Final = optional("queue", TEXT, "only this queue", metavar="NAME")
GROUP: Final = Parameter("group", TEXT, "name of the group, or NAME@FILTER if it has a filter", metavar="GROUP")
WHICH: Final = (
    optional("queue", TEXT, "the queue; with a message id all are searched if it is not given"),
    Parameter("offset", WHOLE, "the message's offset in the queue", False, None, 0, OFFSET_MAX),
    optional("message_id", TEXT, "or the message id that its publisher gave it"),
)
TRACE: Final = optional("name", TEXT, "name of the trace", "trace")
DELAYED: Final = Parameter("name", TEXT, "the key from its publisher, or its number")

EXCHANGE: Final = Parameter("exchange", TEXT, "name of the exchange")
ARGUMENTS: Final = optional("arguments", TABLE, "arguments as AMQP clients give them")
BINDING: Final = (
    VHOST,
    Parameter("exchange", TEXT, "name of the exchange that messages come from"),
    Parameter("destination", TEXT, "name of the queue or exchange that they go to"),
    optional("routing_key", TEXT, "routing key of the binding", "", "KEY"),
    optional("destination_type", TEXT, "queue or exchange", "queue"),
    ARGUMENTS,
)

CLIENT: Final = Parameter("client_id", TEXT, "the client identifier", metavar="CLIENT")
OWNER: Final = optional("user", TEXT, "the user whose session it is, where several have one under that identifier")
TOPIC: Final = Parameter("topic", TEXT, "the topic of the message")

POLICY: Final = Parameter("policy", TEXT, "name of the policy", metavar="NAME")
SET_POLICY: Final = (
    VHOST,
    POLICY,
    Parameter("pattern", TEXT, "regular expression that matches anywhere in the name of a queue or exchange"),
    Parameter(
        "definition", TABLE, "what it sets, such as '{\"message-ttl\": 60000}'; docs/reference/policies.md has the keys"
    ),
    optional(
        "apply_to",
        TEXT,
        "one of all, queues, classic_queues, quorum_queues, streams and exchanges",
        "all",
        metavar="KIND",
    ),
    optional("priority", WHOLE, "of the policies that match, the one with the highest priority applies", 0),
)
COMPONENT: Final = Parameter("component", TEXT, "for which program it is")
PARAMETER: Final = Parameter("name", TEXT, "its name")
VALUE: Final = optional("value", ANY, "any value of JSON")

USER: Final = Parameter("user", TEXT, "name of the user", metavar="NAME")
PASSWORD: Final = optional("password", TEXT, "or its Argon2id hash; without, none is right", "")
TAGS: Final = "of administrator, management, monitoring and policymaker"
WRITE: Final = Parameter("write", TEXT, "regular expression for the names that it may publish to, and bind")
READ: Final = Parameter("read", TEXT, "regular expression for the names that it may consume from, and bind to")
OF_USER: Final = optional("user", TEXT, "only of this user", metavar="NAME")
OF_VHOST: Final = optional("vhost", TEXT, "only in this vhost", metavar="NAME")
VHOST_NAME: Final = Parameter("vhost", TEXT, "name of the vhost")
VHOST_SETTINGS: Final = (
    VHOST_NAME,
    optional("description", TEXT, "for people to read", metavar="TEXT"),
    optional("tags", TEXTS, "for people to read"),
    optional(
        "default_queue_type",
        TEXT,
        "type of queues declared without one: classic, quorum or stream",
        metavar="TYPE",
    ),
    optional("connections_max", WHOLE, "connections at one time; -1 sets no limit"),
    optional("queues_max", WHOLE, "queues at one time; -1 sets no limit"),
    optional("octets_max", WHOLE, "octets in its queues above which publishers are slowed down; -1 sets no limit"),
    optional("protected", FLAG, "it cannot be deleted"),
)
NODE: Final = Parameter("node", TEXT, "name of the member")

PARAMETERS: Final[dict[str, tuple[Parameter, ...]]] = {
    "broker.status": (),
    "queue.stats": (optional("vhost", TEXT, "only those of this vhost; else of all"), *PAGE),
    "config.show": PAGE,
    "config.reload": (),
    "webhook.list": PAGE,
    "connection.list": (optional("vhost", TEXT, "only those in this vhost", metavar="NAME"), *PAGE),
    "channel.list": (optional("connection", WHOLE, "only those of this connection", metavar="ID"), *PAGE),
    "connection.explain": (Parameter("id", WHOLE, "the connection's number in the list", metavar="ID"), *PAGE),
    "connection.close": (
        Parameter("id", WHOLE, "the connection's number in the list", metavar="ID"),
        optional("reason", TEXT, "the reason for the client", "closed by an administrator", "TEXT"),
    ),
    "cluster.status": (),
    "cluster.transfer": (NODE,),
    "cluster.remove": (NODE,),
    "cluster.drain": (NODE,),
    "cluster.undrain": (NODE,),
    # ---- exchanges and bindings
    "exchange.list": LISTED,
    "exchange.declare": (
        VHOST,
        EXCHANGE,
        optional("type", TEXT, "one of direct, fanout, topic, headers and x-consistent-hash", "direct"),
        optional("durable", FLAG, "kept over a restart", True),
        optional("auto_delete", FLAG, "it is deleted with its last binding", False),
        optional("internal", FLAG, "clients cannot publish to it", False),
        ARGUMENTS,
    ),
    "exchange.delete": (VHOST, EXCHANGE, optional("if_unused", FLAG, "only if nothing is bound to it", False)),
    "binding.list": (
        VHOST,
        optional("exchange", TEXT, "only those from this exchange", metavar="NAME"),
        optional("queue", TEXT, "only those to this queue", metavar="NAME"),
        *PAGE,
    ),
    "binding.add": BINDING,
    "binding.delete": BINDING,
    # ---- queues
    "queue.list": LISTED,
    "queue.show": ONE_QUEUE,
    "queue.explain": (*ONE_QUEUE, *PAGE),
    "queue.declare": (
        *ONE_QUEUE,
        optional("type", TEXT, "one of classic, quorum and stream; the vhost's default if not given"),
        optional("durable", FLAG, "kept over a restart", True),
        optional("auto_delete", FLAG, "it is deleted with its last consumer", False),
        optional("arguments", TABLE, "the x-arguments as AMQP clients give them, as a JSON object"),
    ),
    "queue.delete": (
        *ONE_QUEUE,
        optional("if_unused", FLAG, "only if it has no consumers", False),
        optional("if_empty", FLAG, "only if it has no ready messages", False),
    ),
    "queue.purge": ONE_QUEUE,
    "queue.truncate": (*ONE_QUEUE, Parameter("below", WHOLE, "the first offset to keep", least=0, metavar="OFFSET")),
    "queue.messages": MESSAGES,
    "queue.tail": (
        *ONE_QUEUE,
        Parameter("from", WHOLE, "`next` of the answer before; without it, from now on", False, None, 0, OFFSET_MAX),
        Parameter("limit", WHOLE, "the newest so many at most, up to 100", False, 20, 1, 100),
        BODY,
    ),
    "queue.move": (
        *ONE_QUEUE,
        optional("to", TEXT, "the queue that they go to", ""),
        optional("exchange", TEXT, "or the exchange that they go to"),
        optional("routing_key", TEXT, "their routing key there; that of each if not given"),
        WHERE,
        OFFSETS,
        *PORTION,
    ),
    "queue.discard": (*ONE_QUEUE, WHERE, OFFSETS, *PORTION),
    "queue.unsettled": (*ONE_QUEUE, FIRST),
    "stream.show": ONE_QUEUE,
    "stream.offset": (
        *ONE_QUEUE,
        Parameter("time_ms", WHOLE, "milliseconds since 1970", least=0, most=1 << 50),
    ),
    # ---- consumers, groups and what they hold
    "consumer.list": (VHOST, OF_QUEUE, *PAGE),
    "group.list": (VHOST, OF_QUEUE, *PAGE),
    "group.release": (*ONE_QUEUE, Parameter("group", TEXT, "name of a group of kind reader", metavar="GROUP")),
    "group.commit": (
        *ONE_QUEUE,
        Parameter("group", TEXT, "name of a stream group", metavar="GROUP"),
        Parameter("offset", WHOLE, "the offset at which it resumes", metavar="OFFSET"),
    ),
    "group.seek": (
        *ONE_QUEUE,
        GROUP,
        Parameter(
            "to",
            TEXT,
            "one of first, last and next, or an offset, timestamp=MS (since 1970), or an age such as 90m",
            metavar="PLACE",
        ),
    ),
    "group.delete": (
        *ONE_QUEUE,
        GROUP,
        optional("if_unused", FLAG, "only if it has no consumers, and holds nothing", True),
    ),
    "lease.list": (VHOST, OF_QUEUE, *PAGE),
    "lease.release": (
        *ONE_QUEUE,
        optional("group", TEXT, "name of the group; by default the nameless one", "", "NAME"),
        OFFSET,
    ),
    # ---- messages
    "message.show": (*ONE_QUEUE, OFFSET, BODY),
    "message.explain": (
        VHOST,
        *WHICH,
        optional("client_id", TEXT, "or the MQTT session that should have it, with an offset of the sessions' log"),
        OWNER,
        optional("topic", TEXT, "and the topic on which it was published"),
    ),
    "message.history": (VHOST, *WHICH),
    "trace.start": (
        VHOST,
        TRACE,
        optional(
            "pattern",
            TEXT,
            "regular expression that matches anywhere in the names of queues, later ones too",
            ".*",
            "REGEX",
        ),
        WHERE,
        Parameter("events_max", WHOLE, "number of latest events to keep", False, 10_000, 1, 100_000),
    ),
    "trace.stop": (VHOST, TRACE),
    "trace.list": LISTED,
    "trace.show": (VHOST, TRACE, *PAGE),
    "dlq.list": LISTED,
    "dlq.show": MESSAGES,
    "dlq.redrive": (
        *ONE_QUEUE,
        WHERE,
        optional("to", TEXT, "the queue that they go to; that in which each died first if not given", ""),
        OFFSETS,
        optional("id", WHOLE, "the queue's number: refused where its name is another queue's by now"),
        *PORTION,
    ),
    "dlq.purge": (*ONE_QUEUE, WHERE, *PORTION),
    "dlq.edit": (
        *ONE_QUEUE,
        OFFSET,
        optional("body", TEXT, "another body"),
        optional("body_base64", TEXT, "the new body, if it is not text"),
        optional("headers", TABLE, "headers to set; null removes one"),
        optional("routing_key", TEXT, "another routing key"),
    ),
    "delayed.list": LISTED,
    "delayed.cancel": (VHOST, DELAYED),
    "delayed.publish": (VHOST, DELAYED),
    "transaction.list": LISTED,
    # ---- MQTT
    "session.list": (VHOST, optional("connected", FLAG, "only connected, or only offline sessions"), *PAGE),
    "session.show": (VHOST, CLIENT, OWNER),
    "session.messages": (VHOST, CLIENT, OWNER, FIRST, LIMIT, BODY),
    "session.close": (VHOST, CLIENT, OWNER),
    "session.delete": (VHOST, CLIENT, OWNER),
    "subscription.list": (
        VHOST,
        optional("client_id", TEXT, "only those of this session", metavar="CLIENT"),
        OWNER,
        optional("topic", TEXT, "only subscriptions that match this topic"),
        *PAGE,
    ),
    "retained.list": (VHOST, optional("filter", TEXT, "a topic filter", "#"), *PAGE),
    "retained.show": (VHOST, TOPIC, BODY),
    "retained.delete": (VHOST, TOPIC),
    # ---- policies, and parameters that programs and people keep here
    "policy.list": LISTED,
    "policy.set": SET_POLICY,
    "policy.clear": (VHOST, POLICY),
    "operator_policy.list": LISTED,
    "operator_policy.set": SET_POLICY,
    "operator_policy.clear": (VHOST, POLICY),
    "parameter.list": LISTED,
    "parameter.set": (VHOST, COMPONENT, PARAMETER, VALUE),
    "parameter.clear": (VHOST, COMPONENT, PARAMETER),
    "global_parameter.list": PAGE,
    "global_parameter.set": (PARAMETER, VALUE),
    "global_parameter.clear": (PARAMETER,),
    # ---- users and vhosts
    "user.list": PAGE,
    "user.add": (USER, PASSWORD, optional("tags", TEXTS, TAGS)),
    "user.put": (
        USER,
        optional("hash", TEXT, "Argon2id hash of the password; without, none is right", ""),
        Parameter("tags", TEXTS, "also such as mean nothing to the broker"),
    ),
    "user.delete": (USER,),
    "user.password": (USER, PASSWORD),
    "user.tags": (USER, Parameter("tags", TEXTS, TAGS)),
    "user.limits": (
        USER,
        Parameter("limits", TABLE, "connections_max and channels_max at one time; -1 sets no limit"),
    ),
    "permission.list": (OF_USER, OF_VHOST, *PAGE),
    "permission.set": (
        VHOST,
        USER,
        Parameter("configure", TEXT, "regular expression for the names that it may declare and delete"),
        WRITE,
        READ,
    ),
    "permission.clear": (VHOST, USER),
    "topic_permission.list": (OF_USER, OF_VHOST, *PAGE),
    "topic_permission.set": (
        VHOST,
        USER,
        Parameter("exchange", TEXT, "name of a topic exchange"),
        Parameter("write", TEXT, "regular expression for the routing keys that it may publish with"),
        Parameter("read", TEXT, "regular expression for the routing keys that it may bind with"),
    ),
    "topic_permission.clear": (VHOST, USER, optional("exchange", TEXT, "name of a topic exchange; without it, all")),
    "vhost.list": PAGE,
    "vhost.add": VHOST_SETTINGS,
    "vhost.set": VHOST_SETTINGS,
    "vhost.delete": (VHOST_NAME,),
}
