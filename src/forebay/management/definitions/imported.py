"""A definitions file is taken in: all of it is checked before anything is changed, and nothing is ever taken away.

What is there already stays as it is (queues, exchanges), or becomes what the file says (users, permissions, policies,
parameters, settings of vhosts). A file of RabbitMQ may say what means nothing here; the notes of a plan tell of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from forebay.broker.address import NAME_OCTETS_MAX, check_queue_name
from forebay.broker.auth.passwords import imported_hash
from forebay.broker.auth.permissions import check_pattern, check_topic_pattern
from forebay.broker.auth.provisioning import check_user, put_user
from forebay.broker.catalog.commands.exchanges import DeclareExchange
from forebay.broker.catalog.commands.queues import DeclareQueue
from forebay.broker.catalog.policies import Policy, check_policy
from forebay.broker.catalog.policy_changes import put_policy
from forebay.broker.catalog.settings import PROTECTED, VhostSettings
from forebay.broker.catalog.topology import RESERVED
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import INVALID, RequestError
from forebay.core.nearest import slip_among
from forebay.management.definitions.given import SHOWN_MAX, GivenEntry
from forebay.management.definitions.limits import OF_USERS, OF_VHOSTS, limit_settings
from forebay.queue.declaration.arguments import BY_KEY
from forebay.queue.declaration.spec import check_declaration
from forebay.routing.exchange import Exchange, text
from forebay.routing.kinds import check_binding

Declared = tuple[bool, bool, dict[str, object]]  # of a queue: durable, auto_delete, arguments

NO_SESSION: Final = 0
SECTIONS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "exchanges",
    "queues",
    "bindings",
)
# The fields of an entry by section, those included that mean nothing here: another name like one of them is a slip.
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "vhosts": (
        *("name", "description", "tags", "metadata", "limits", "tracing"),
        *("default_queue_type", "protected_from_deletion"),
    ),
    "users": ("name", "password", "password_hash", "hashing_algorithm", "tags", "limits"),
    "permissions": ("user", "vhost", "configure", "write", "read"),
    "topic_permissions": ("user", "vhost", "exchange", "write", "read"),
    "parameters": ("vhost", "component", "name", "value"),
    "global_parameters": ("name", "value"),
    "policies": ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("vhost", "name", "type", "durable", "auto_delete", "exclusive", "arguments"),
    "bindings": ("vhost", "source", "destination", "destination_type", "routing_key", "properties_key", "arguments"),
}
OF_ONE_VHOST: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
LIMITS: Final = "vhost-limits"
OPERATOR_POLICY: Final = "operator_policy"
# Of classic mirrored queues, and of how RabbitMQ keeps messages: nothing is lost with them.
MEANINGLESS: Final = (
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
    "queue-mode",
    "queue-version",
    "queue-master-locator",
)
Do = Callable[[], object]


class ImportStep:
    """One thing to do, which was found to be possible; `what` is how errors name it."""

    def __init__(self, what: str, do: Do) -> None:
        self.what = what
        self.do = do


class ImportPlan:
    """The plan that a file asks for.

    vhosts     of the broker
    only       all is about this one, whatever the entries say; None: every entry says where it belongs
    notes      what of the file means nothing here, for the log
    importer   name of the user that imports it, who declares its queues; empty for the configuration
    """

    def __init__(
        self, vhosts: Vhosts, document: Mapping[str, object], only: Vhost | None = None, importer: str = ""
    ) -> None:
        self.vhosts = vhosts
        self.document = document
        self.only = only
        self.importer = importer
        self.notes: list[str] = []
        self.names: set[bytes] = set(vhosts.by_name)  # of vhosts that there will be
        self.users: set[str] = set(vhosts.users.by_name)
        self.queues: dict[tuple[bytes, bytes], Declared] = {}  # that the file makes, by vhost and name
        self.exchanges: dict[tuple[bytes, bytes], Exchange] = {}  # the same, as they will be, without bindings

    def steps(self) -> Iterator[ImportStep]:
        """All steps that have to be done, checked one by one; RequestError(INVALID) names the entry and the field."""
        checks = {
            "vhosts": self.vhost,
            "users": self.user,
            "permissions": self.permission,
            "topic_permissions": self.topic_permission,
            "parameters": self.parameter,
            "global_parameters": self.global_parameter,
            "policies": self.policy,
            "exchanges": self.exchange,
            "queues": self.queue,
            "bindings": self.binding,
        }
        self.check_sections()
        for section in SECTIONS if self.only is None else OF_ONE_VHOST:
            entries = self.document.get(section, [])
            if not isinstance(entries, list):
                raise RequestError(INVALID, f"{section}: is no list")
            for index, entry in enumerate(entries):
                given = GivenEntry(section, index, entry)
                given.check_names(FIELDS[section])
                try:
                    do = checks[section](given)
                except RequestError as error:
                    where = "" if error.text.startswith(section) else f"{given.where}: "
                    raise RequestError(INVALID, where + error.text) from None
                if do is not None:
                    yield ImportStep(given.where, do)

    def check_sections(self) -> None:
        """RequestError where a section is most likely misspelt; RabbitMQ's files say more that means nothing here."""
        name, meant = slip_among(self.document, SECTIONS)
        if meant:
            raise RequestError(INVALID, f"{name[:SHOWN_MAX]}: no such section; did you mean {meant}?")

    # ---- where entries belong

    def vhost_of(self, given: GivenEntry) -> bytes:
        """Name of the vhost that an entry is about."""
        if self.only is not None:
            return self.only.name
        name = given.octets("vhost")
        if name not in self.names:
            raise given.wrong("vhost", text(name), "does not exist, and is not among the vhosts of the file")
        return name

    def user_of(self, given: GivenEntry) -> str:
        name = given.text("user")
        if name not in self.users:
            raise given.wrong("user", name, "does not exist, and is not among the users of the file")
        return name

    def there(self, name: bytes) -> Vhost:
        """The vhost of that name, now that things are done; they do something in it."""
        vhost = self.vhosts.by_name[name]
        vhost.touch()
        return vhost

    # ---- what entries ask for

    def vhost(self, given: GivenEntry) -> Do | None:
        name = given.octets("name")
        if not 0 < len(name) <= NAME_OCTETS_MAX:
            raise given.wrong("name", text(name), f"has not 1 to {NAME_OCTETS_MAX} octets")
        said = GivenEntry("vhosts", 0, {**given.table("metadata"), **given.fields})
        settings: dict[str, object] = {}
        if "description" in said.fields:
            settings["description"] = said.text("description")
        if "tags" in said.fields:
            settings["tags"] = said.texts("tags")
        kind = said.fields.get("default_queue_type")
        if kind not in {None, "undefined"}:
            settings["default_queue_type"] = kind
        if "protected_from_deletion" in said.fields:
            settings[PROTECTED] = said.flag("protected_from_deletion", False)
        VhostSettings().change(settings)
        self.names.add(name)
        return partial(self.make_vhost, name, settings)

    def make_vhost(self, name: bytes, settings: dict[str, object]) -> None:
        vhost = self.vhosts.add(name)
        if {**vhost.catalog.settings.fields(), **settings} != vhost.catalog.settings.fields():
            self.vhosts.change(vhost, settings)

    def user(self, given: GivenEntry) -> Do | None:
        name, tags = given.text("name"), given.texts("tags")
        hash = imported_hash(given.text("password_hash", ""), given.text("hashing_algorithm", ""))
        limits = limit_settings(given.table("limits"), OF_USERS)
        check_user(name, hash, tags)
        self.users.add(name)
        known = self.vhosts.users.by_name.get(name)
        if known is not None and known.configured:
            self.notes.append(f"user '{name}' is of the configuration, and stays as it is")
            return None
        return partial(self.make_user, name, hash, tags, limits)

    def make_user(self, name: str, hash: str, tags: list[str], limits: dict[str, object]) -> None:
        put_user(self.vhosts.users, name, hash, tags)
        if limits:
            self.vhosts.users.set_limits(name, limits)

    def permission(self, given: GivenEntry) -> Do | None:
        vhost, user = self.vhost_of(given), self.user_of(given)
        patterns = [given.text(field) for field in ("configure", "write", "read")]
        for field in ("configure", "write", "read"):
            check_pattern(field, given.text(field))
        return partial(self.vhosts.users.set_permissions, user, vhost, *patterns)

    def topic_permission(self, given: GivenEntry) -> Do | None:
        vhost, user = self.vhost_of(given), self.user_of(given)
        write, read = given.text("write"), given.text("read")
        check_topic_pattern("write", write)
        check_topic_pattern("read", read)
        return partial(self.vhosts.users.set_topic_permissions, user, vhost, given.octets("exchange"), write, read)

    def parameter(self, given: GivenEntry) -> Do | None:
        vhost, component, name = self.vhost_of(given), given.text("component"), given.text("name")
        if component == LIMITS:
            settings = limit_settings(given.table("value"), OF_VHOSTS)
            VhostSettings().change(settings)
            return partial(self.make_vhost, vhost, settings) if settings else None
        if component == OPERATOR_POLICY:
            return self.policy_named(given, vhost, name, GivenEntry("parameters", 0, given.table("value")), True)
        self.notes.append(f"parameter '{name}' of '{component}' is kept, and means nothing to this broker")
        value = given.fields.get("value")
        return partial(self.vhosts.parameters.set, vhost, component, name, value)

    def global_parameter(self, given: GivenEntry) -> Do | None:
        return partial(self.vhosts.parameters.set_global, given.text("name"), given.fields.get("value"))

    def policy(self, given: GivenEntry) -> Do | None:
        return self.policy_named(given, self.vhost_of(given), given.text("name"), given, False)

    def policy_named(self, given: GivenEntry, vhost: bytes, name: str, said: GivenEntry, operator: bool) -> Do | None:
        """A policy, without what means nothing here."""
        definition = dict(said.table("definition"))
        for key in [key for key in definition if key in MEANINGLESS and key not in BY_KEY]:
            del definition[key]
            self.notes.append(f"{given.where}: {key} means nothing to this broker")
        if not definition and said.table("definition"):
            return None
        pattern, priority = said.fields.get("pattern"), said.fields.get("priority", 0)
        apply_to = said.fields.get("apply-to", "all")
        policy = check_policy(name, operator, pattern, apply_to, definition, priority)
        self.vhosts.default.catalog.placement.check_definition(policy.definition, policy.called())
        return partial(self.make_policy, vhost, policy)

    def make_policy(self, vhost: bytes, policy: Policy) -> None:
        put_policy(self.there(vhost), policy)

    def exchange(self, given: GivenEntry) -> Do | None:
        vhost, name = self.vhost_of(given), given.octets("name")
        kind, arguments = given.octets("type"), given.table("arguments")
        durable, auto_delete = given.flag("durable", True), given.flag("auto_delete", False)
        internal = given.flag("internal", False)
        wanted = DeclareExchange(name, kind, arguments, durable, auto_delete, internal)
        made = wanted.made(vhost)
        if not name:
            return None
        there = self.known_exchange(vhost, name)
        if there is not None:
            is_same = (there.kind, there.durable, there.auto_delete) == (kind, durable, auto_delete)
            if not is_same or (there.internal, there.arguments) != (internal, arguments):
                self.notes.append(f"{given.where}: the exchange is there, declared otherwise, and stays as it is")
            return None
        if name.startswith(RESERVED):
            self.notes.append(
                f"{given.where}: names that begin with {RESERVED.decode()} are the broker's; it is not made"
            )
            return None
        self.exchanges[vhost, name] = made
        return partial(self.make_exchange, vhost, wanted)

    def make_exchange(self, vhost: bytes, wanted: DeclareExchange) -> None:
        self.there(vhost).catalog.add_exchange(wanted)

    def queue(self, given: GivenEntry) -> Do | None:
        vhost, name, arguments = self.vhost_of(given), given.octets("name"), given.table("arguments")
        durable, auto_delete = given.flag("durable", True), given.flag("auto_delete", False)
        if not name:
            raise given.wrong("name", "", "is no name")
        check_queue_name(name)
        check_declaration(given.where, False, durable, False, auto_delete, arguments)
        there = self.known_queue(vhost, name)
        if there is not None:
            if there != (durable, auto_delete, arguments):
                self.notes.append(f"{given.where}: the queue is there, declared otherwise, and stays as it is")
            return None
        self.vhosts.default.catalog.placement.check_arguments(arguments, given.where)
        self.queues[vhost, name] = (durable, auto_delete, arguments)
        return partial(self.make_queue, vhost, name, durable, auto_delete, arguments)

    def make_queue(
        self, vhost: bytes, name: bytes, durable: bool, auto_delete: bool, arguments: dict[str, object]
    ) -> None:
        where = self.there(vhost)
        if not name.startswith(RESERVED):
            where.catalog.declare_queue(name, durable, False, auto_delete, arguments, NO_SESSION, self.importer)
        elif name not in where.catalog.queues:  # a name that a broker gave: only a client may not choose it
            id = int(where.catalog.next_queue)
            where.catalog.add_queue(DeclareQueue(id, name, arguments, durable, auto_delete, user=self.importer))

    def binding(self, given: GivenEntry) -> Do | None:
        vhost, source, destination = self.vhost_of(given), given.octets("source"), given.octets("destination")
        key, arguments = given.octets("routing_key"), given.table("arguments")
        kind = given.text("destination_type", "queue")
        if kind not in {"queue", "exchange"}:
            raise given.wrong("destination_type", kind, "is neither queue nor exchange")
        if not source:
            return None  # every queue is bound so
        exchange = self.known_exchange(vhost, source)
        if exchange is None:
            raise given.wrong("source", text(source), "is no exchange of the vhost or the file")
        if not self.is_known(vhost, destination, kind):
            raise given.wrong("destination", text(destination), f"is no {kind} of the vhost or the file")
        check_binding(vhost, exchange, arguments)
        exchange.check_bind(key, arguments)
        return partial(self.bind, vhost, kind == "queue", destination, source, key, arguments)

    def bind(
        self, vhost: bytes, to_queue: bool, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
    ) -> None:
        if to_queue:
            self.there(vhost).catalog.bind(destination, source, key, arguments)
        else:
            self.there(vhost).catalog.bind_exchange(destination, source, key, arguments)

    def known_exchange(self, vhost: bytes, name: bytes) -> Exchange | None:
        """An exchange that is there, or will be."""
        known = self.vhosts.by_name.get(vhost)
        there = None if known is None else known.catalog.bindings.exchanges.get(name)
        if there is None and known is None and name.startswith(RESERVED):
            there = self.vhosts.default.catalog.bindings.exchanges.get(
                name
            )  # a vhost that the file makes has these, too
        return there or self.exchanges.get((vhost, name))

    def known_queue(self, vhost: bytes, name: bytes) -> Declared | None:
        """The declaration of a queue that is there, or will be."""
        known = self.vhosts.by_name.get(vhost)
        there = None if known is None else known.catalog.queues.get(name)
        if there is None:
            return self.queues.get((vhost, name))
        return there.spec.durable, there.spec.auto_delete, there.spec.arguments

    def is_known(self, vhost: bytes, name: bytes, kind: str) -> bool:
        """True if a destination is there, or will be."""
        if kind == "exchange":
            return self.known_exchange(vhost, name) is not None
        return self.known_queue(vhost, name) is not None


def incomplete(step: ImportStep, done: int, error: RequestError) -> RequestError:
    """The error where something could not be done though it had been checked: the broker changed meanwhile."""
    before = f"; what stands before it was done, {done} entries" if done else ""
    return RequestError(error.reason, f"{step.what}: {error.text}{before}")
