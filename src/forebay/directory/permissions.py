"""The permissions of a user in a vhost: regular expressions over names of queues and exchanges, as with RabbitMQ.

`configure` is asked for what makes and takes away, `write` for what puts messages in, `read` for what takes them out.
On topic exchanges the routing key may have to match, too. A pattern is searched for anywhere in the name; an empty one
allows nothing but an empty name. Patterns are those of `filter/pattern.py`, so that no name can make one take long.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import INVALID, REFUSED, LimitReached, RequestError
from forebay.directory.logins.authorizer import EXCHANGE, QUEUE, Authorizer
from forebay.directory.topic_acl import AclBook, ClientAcl
from forebay.filter.pattern import NAME_CHARACTERS_MAX, NAME_PROGRAM_MAX, Pattern
from forebay.filter.program import BadPattern
from forebay.message.address import (
    DEAD_LETTER_PREFIX,
    QUEUE_PREFIX,
    TOPIC_EXCHANGE,
    Addresses,
    dead_letter_address,
    levels_of,
    named_queue,
    queue_address,
    shared_topics,
    topic_of,
)
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
EVERYTHING: Final = ".*"
DEFAULT_EXCHANGE: Final = "amq.default"  # what errors and patterns call the exchange without a name
PATTERN_CHARACTERS_MAX: Final = 4096
PATTERNS_MAX: Final = 1024  # that are remembered
PERMITTED_MAX: Final = 4096  # addresses of one connection to which it was found to be allowed to publish
UNLIMITED: Final = -1
UNSTAMPED: Final = -1  # stamp of rights of which nobody here learns when they change
LEVEL_UNFIT: Final = ("*", "#", "+", "/", ".")  # wildcards, and what separates levels, of MQTT and of AMQP


@final
class Permission:
    """The permissions of one user in one vhost."""

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure = configure
        self.write = write
        self.read = read

    def fields(self) -> dict[str, object]:
        """The patterns by name."""
        return {CONFIGURE: self.configure, WRITE: self.write, READ: self.read}


@final
class TopicPermission:
    """The routing keys of one topic exchange on which one user may write and read."""

    def __init__(self, write: str, read: str) -> None:
        self.write = write
        self.read = read

    def fields(self) -> dict[str, object]:
        """The patterns by name."""
        return {WRITE: self.write, READ: self.read}


@final
class Usage:
    """The connections and channels that one user has open.

    connections_max, channels_max  at one time, over all vhosts; -1 sets no limit
    connections                    numbers of its connections, each with how many channels it has
    """

    def __init__(self) -> None:
        self.connections_max = UNLIMITED
        self.channels_max = UNLIMITED
        self.connections: dict[int, int] = {}

    def enter(self, user: str, connection: int) -> None:
        """A connection more; LimitReached."""
        most = self.connections_max
        if most >= 0 and connection not in self.connections and len(self.connections) >= most:
            raise LimitReached(f"connection refused for user '{user}': user connection limit ({most}) is reached")
        self.connections.setdefault(connection, 0)

    def leave(self, connection: int) -> None:
        """A connection has ended."""
        self.connections.pop(connection, None)

    def note_channels(self, connection: int, channels: int) -> None:
        """Note how many channels a connection has; one that has ended meanwhile stays so."""
        if connection in self.connections:
            self.connections[connection] = channels

    def check_channel(self, user: str, connection: int, channels: int) -> None:
        """Check that a connection with so many channels may open one more; LimitReached."""
        self.connections[connection] = channels + 1
        if 0 <= self.channels_max < sum(self.connections.values()):
            self.connections[connection] = channels
            raise LimitReached(
                f"number of channels opened for user '{user}' has reached the maximum allowed user limit of "
                f"({self.channels_max})"
            )


@final
class GrantsVersion:
    """One version of the grants of a user in a vhost: each change of them makes another.

    is_current  they have not changed since: decisions made by them hold
    """

    def __init__(self) -> None:
        self.is_current = True


@final
class Grants:
    """The permissions that one user was given in one vhost; one object for each, whose fields change.

    permission  None: it may not enter
    topics      by exchange; one that is not there is not restricted
    authorizer  decides in place of the two
    """

    def __init__(
        self, permission: Permission | None, topics: dict[bytes, TopicPermission], authorizer: Authorizer | None = None
    ) -> None:
        self.permission = permission
        self.topics = topics
        self.authorizer = authorizer
        self.version = GrantsVersion()

    def put_in_force(self, other: Grants) -> None:
        """Take over other grants of stored permissions. Decisions made by the old ones end only if they differ."""
        old = self.permission
        new = other.permission
        is_same = old is new or (old is not None and new is not None and old.fields() == new.fields())
        if not is_same or self.topics != other.topics:
            self.permission = new
            self.topics = other.topics
            self.end_version()

    def end_version(self) -> None:
        """End all decisions that were made by these grants."""
        self.version.is_current = False
        self.version = GrantsVersion()


def check_pattern(field: str, pattern: str) -> None:
    """RequestError(INVALID) unless it is a regular expression."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise RequestError(INVALID, f"{field}: a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        Pattern(pattern, NAME_PROGRAM_MAX)
    except BadPattern as error:
        raise RequestError(INVALID, f"{field}: '{pattern}' is no regular expression: {error}") from None


def check_topic_pattern(field: str, pattern: str) -> None:
    """The same for a pattern of routing keys, in which names stand for those of the connection."""
    check_pattern(field, filled(pattern, "x", "x", "x"))


def filled(pattern: str, user: str, vhost: str, client_id: str) -> str:
    """Return the pattern with the names of a connection in place of `{username}`, `{vhost}` and `{client_id}`.

    raises  RequestError(REFUSED) where the pattern takes a name that the client chose to be more than one level
    """
    if "{" not in pattern:
        return pattern
    for mark, name in (("{username}", user), ("{client_id}", client_id)):
        if mark in pattern:
            check_level(mark, name)
            pattern = pattern.replace(mark, escaped(name))
    return pattern.replace("{vhost}", escaped(vhost))


def check_level(mark: str, name: str) -> None:
    """Raise RequestError(REFUSED) unless a name stands for one level of a topic, in MQTT and in AMQP."""
    if not name:
        raise RequestError(REFUSED, f"the topic permission has {mark}, and this connection has none")
    for character in LEVEL_UNFIT:
        if character in name:
            raise RequestError(
                REFUSED, f"the topic permission has {mark}, which '{name}' cannot stand for: it has '{character}'"
            )


KNOWN: Final[dict[str, Pattern | None]] = {}


def compiled(pattern: str) -> Pattern | None:
    """The pattern of a text; None where it is none, as it may be with a name put in, or in what was stored before."""
    if pattern in KNOWN:
        return KNOWN[pattern]
    made: Pattern | None = None
    try:
        made = Pattern(pattern, NAME_PROGRAM_MAX)
    except BadPattern:
        made = None
    if len(KNOWN) >= PATTERNS_MAX:
        KNOWN.clear()
    KNOWN[pattern] = made
    return made


def allows(pattern: str, name: str) -> bool:
    """Return whether a pattern allows a name. A name above NAME_CHARACTERS_MAX passes only `EVERYTHING`."""
    if pattern == EVERYTHING:
        return True
    if not pattern:
        return not name
    if len(name) > NAME_CHARACTERS_MAX:
        return False
    made = compiled(pattern)
    return made is not None and made.find(name) is True


def escaped(name: str) -> str:
    """Return a pattern that matches only this name."""
    parts: list[str] = []
    for character in name:
        parts.append(character if character.isalnum() or character == "_" else f"\\{character}")
    return "".join(parts)


@final
class Rights:
    """The rights of one connection: its user in its vhost, by whatever protocol it speaks.

    Every check raises RequestError(REFUSED), with RabbitMQ's words, where it may not.

    stamp  changes with every change of stored rights: as long as it is the same, so is what is permitted; UNSTAMPED
           of rights that an authorizer has
    book  the file's rules for topics, which hold beside the grants; addresses are looked up there as MQTT says them
    """

    def __init__(self, user: str, vhost: bytes, grants: Grants, book: AclBook | None = None) -> None:
        self.user = user
        self.vhost = text(vhost)
        self.client_id = ""
        self.grants = grants
        self.usage = Usage()  # its user's, once it is in a vhost
        self.stamp = UNSTAMPED
        self.book = book
        self.addresses: Addresses | None = None  # of its vhost
        self.is_anonymous = False
        self._acl: ClientAcl | None = None  # what the book says of this connection, once that was asked
        self._permitted: dict[tuple[bytes, bytes, bool], None] = {}  # where it may publish, by these two:
        self._grants_version = grants.version
        self._book_version = -1

    def refuse(self, right: str, what: str) -> None:
        raise RequestError(REFUSED, f"{right} access to {what} in vhost '{self.vhost}' refused for user '{self.user}'")

    def pattern(self, right: str) -> str:
        permission = self.grants.permission
        if permission is None:
            return ""
        if right == CONFIGURE:
            return permission.configure
        return permission.write if right == WRITE else permission.read

    def rules(self) -> ClientAcl | None:
        """Return the ACL file's rules for this connection, or None if no file is used."""
        book = self.book
        if book is None or not book.is_used:
            return None
        if self._acl is None:
            self._acl = ClientAcl(book, self.user, self.client_id, self.is_anonymous)
        return self._acl

    def check_rules(self, right: str, exchange: bytes, key: bytes, is_strict: bool = True) -> None:
        """Check that the file's rules let this address be written or read.

        is_strict  what no rule speaks of is refused; else it is left to the permissions
        """
        acl = self.rules()
        if acl is None:
            return
        topic = text(topic_of(exchange, key))
        if topic and not acl.decide(right, topic.split("/"), not is_strict):
            self.refuse(right, f"topic '{topic}'")

    def is_permitted(self, right: str, name: bytes) -> bool:
        """Return whether the permission for this right covers the queue of this name. Raises only Undecided."""
        authorizer = self.grants.authorizer
        if authorizer is not None:
            return authorizer.may(self.vhost, right, QUEUE, text(name))
        return allows(self.pattern(right), text(name))

    def covers(self, right: str, name: bytes) -> bool:
        """Return whether this right covers the whole queue of this name. Raises only Undecided."""
        if right == READ:
            acl = self.rules()
            if acl is not None and not acl.decide(READ, [*levels_of(name), "#"], True):
                return False
        return self.is_permitted(right, name)

    def check_queue(self, right: str, name: bytes) -> None:
        """Check that this right covers the queue, which may be named by its address: patterns are over names."""
        name = named_queue(name)
        if not self.covers(right, name):
            self.refuse(right, f"queue '{text(name)}'")

    def check_part(self, right: str, address: bytes, name: bytes) -> None:
        """Check that this right covers what an address of MQTT names of the queue."""
        self.check_rules(right, b"", address)
        if not self.is_permitted(right, name):
            self.refuse(right, f"queue '{text(name)}'")

    def check_exchange(self, right: str, name: bytes) -> None:
        """Check that this right covers the exchange."""
        shown = text(name) if name else DEFAULT_EXCHANGE
        authorizer = self.grants.authorizer
        if authorizer is not None:
            is_allowed = authorizer.may(self.vhost, right, EXCHANGE, shown)
        else:
            is_allowed = allows(self.pattern(right), shown)
        if not is_allowed:
            self.refuse(right, f"exchange '{shown}'")

    def check_topic(self, right: str, exchange: bytes, routing_key: bytes) -> None:
        """Check that this right covers the routing key of a topic exchange."""
        authorizer = self.grants.authorizer
        if authorizer is not None:
            if not authorizer.may_topic(self.vhost, right, text(exchange), text(routing_key)):
                self.refuse(right, f"topic '{text(routing_key)}' in exchange '{text(exchange)}'")
            return
        topics = self.grants.topics
        if not topics:
            return
        given = topics.get(exchange)
        if given is None:
            return
        topic = f"topic '{text(routing_key)}' in exchange '{text(exchange)}'"
        try:
            pattern = filled(given.write if right == WRITE else given.read, self.user, self.vhost, self.client_id)
        except RequestError as error:
            self.refuse(right, f"{topic} ({error.text})")
            return
        if not allows(pattern, text(routing_key)):
            self.refuse(right, topic)

    def restricts_topics(self) -> bool:
        """Return whether it depends on the topic what of amq.topic may be had."""
        if self.grants.authorizer is not None or TOPIC_EXCHANGE in self.grants.topics or self.rules() is not None:
            return True
        return not allows(self.pattern(READ), text(TOPIC_EXCHANGE))

    # ---- what protocols ask

    def check_publish(self, exchange: bytes, routing_key: bytes, is_topic: bool) -> None:
        """Check that messages may be published there; what was permitted is remembered until the rights change."""
        if self.grants.authorizer is not None or routing_key.startswith(QUEUE_PREFIX):
            self.decide_publish(exchange, routing_key, is_topic)
            return
        version = self.grants.version
        book_version = 0 if self.book is None else self.book.version
        permitted = self._permitted
        if version is not self._grants_version or book_version != self._book_version or len(permitted) >= PERMITTED_MAX:
            permitted.clear()
            self._grants_version = version
            self._book_version = book_version
        place = (exchange, routing_key, is_topic)
        if place not in permitted:
            self.decide_publish(exchange, routing_key, is_topic)
            permitted[place] = None

    def decide_publish(self, exchange: bytes, routing_key: bytes, is_topic: bool) -> None:
        """Decide whether messages may be published there, anew."""
        self.check_exchange(WRITE, exchange)
        if is_topic:
            self.check_topic(WRITE, exchange, routing_key)
        if not exchange and routing_key.startswith(QUEUE_PREFIX):
            self.check_made(routing_key, True)
        # A queue that is called by its name alone is left to the permissions where no rule speaks of it.
        self.check_rules(WRITE, exchange, routing_key, bool(exchange) or routing_key.startswith(QUEUE_PREFIX))

    def check_publish_topic(self, topic: bytes) -> None:
        """Check that messages may be published to this topic of MQTT, which may be the address of a queue."""
        if topic.startswith(QUEUE_PREFIX):
            self.check_publish(b"", topic, False)
        else:
            self.check_publish(TOPIC_EXCHANGE, swap_key(topic), True)

    def check_subscribe(self, filter: bytes) -> None:
        """Check that the client may have what a filter of MQTT asks for, of topics, a queue or a share of topics."""
        if filter.startswith(QUEUE_PREFIX):
            self.check_part(READ, filter, queue_address(filter)[0])
            self.check_made(filter, False)
            return
        if filter.startswith(DEAD_LETTER_PREFIX):
            self.check_part(READ, filter, dead_letter_address(filter)[0])
            return
        self.check_source(TOPIC_EXCHANGE, swap_key(shared_topics(filter)), True)

    def check_made(self, address: bytes, publishes: bool) -> None:
        """Check that the queue may be made which publishing, or else consuming, at this address would make."""
        if self.addresses is None or not address.startswith(QUEUE_PREFIX):
            return
        name = self.addresses.makes(address, publishes)
        if name and not self.is_permitted(CONFIGURE, name):
            self.refuse(CONFIGURE, f"queue '{text(name)}', which is not there,")

    def check_bind(self, queue: bytes, exchange: bytes, routing_key: bytes, is_topic: bool) -> None:
        """Check that a queue may be bound to an exchange, or the binding be deleted."""
        self.check_queue(WRITE, queue)
        self.check_source(exchange, routing_key, is_topic)

    def check_source(self, exchange: bytes, routing_key: bytes, is_topic: bool) -> None:
        """Check that messages may be had which an exchange gives to this routing key."""
        self.check_exchange(READ, exchange)
        if is_topic:
            self.check_topic(READ, exchange, routing_key)
        self.check_rules(READ, exchange, routing_key)
