"""A definitions file is taken in: all of it is checked before anything is changed, and nothing is ever taken away.

What is there already stays as it is (queues, exchanges), or becomes what the file says (users, permissions, policies,
parameters, settings of vhosts). What cannot be in force here is left out and listed. Entries that are none, or have
fields of a wrong type, are no other broker's: the file is refused for them, and all of them are named at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from forebay.broker.catalog.commands.exchanges import DeclareExchange
from forebay.broker.catalog.commands.queues import DeclareQueue
from forebay.broker.catalog.policies import Policy, check_definition, check_policy, kind_name
from forebay.broker.catalog.topology import RESERVED, built_in_exchange, placement_in
from forebay.broker.policy_changes import put_policy
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import RequestError
from forebay.core.option_names import CLASSIC_TYPE, STREAM_TYPE
from forebay.core.reading.nearest import hint, slip_of
from forebay.directory.logins.passwords import imported_hash
from forebay.directory.parameters import check_name, check_value
from forebay.directory.permissions import check_pattern, check_topic_pattern
from forebay.directory.provisioning import check_user, put_user
from forebay.directory.users import check_limits
from forebay.directory.vhost_settings import PROTECTED, VhostSettings
from forebay.management.definitions.given import SHOWN_MAX, EntryFault, GivenEntry
from forebay.management.definitions.left_out import (
    NOT_IN_FORCE,
    LeftOut,
    fitting,
    is_about_loss,
    refusal_of,
    unknown_reason,
)
from forebay.management.definitions.limits import OF_USERS, OF_VHOSTS, limit_settings
from forebay.message.address import NAME_OCTETS_MAX, check_queue_name
from forebay.queue.declaration.arguments import BY_KEY, FOREIGN, KNOWN, invalid
from forebay.queue.declaration.spec import check_declaration
from forebay.queue.declaration.view_arguments import SOURCE, check_view_arguments, text_argument
from forebay.routing.exchange import FOREIGN as FOREIGN_TO_EXCHANGES
from forebay.routing.exchange import KNOWN as KNOWN_TO_EXCHANGES
from forebay.routing.exchange import Exchange, text
from forebay.routing.headers_exchange import HeadersExchange
from forebay.routing.kinds import DELAYED_TYPE, FOREIGN_TO_BINDINGS, KINDS, check_binding

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
# What else a file may have: what its broker says of itself, and in the file of one vhost its settings.
ABOUT_THE_FILE: Final = (
    *("rabbit_version", "rabbitmq_version", "product_name", "product_version", "rabbitmq_definition_format"),
    *("original_cluster_name", "original_vhost_name", "explanation"),
    *("name", "metadata", "description", "tags", "default_queue_type", "limits", "tracing"),
)
LIMITS: Final = "vhost-limits"
OPERATOR_POLICY: Final = "operator_policy"
MOVERS: Final = ("shovel", "federation-upstream", "federation-upstream-set")  # by which RabbitMQ moves messages
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
NOTHING: Final = "$x"  # a pattern that lets no name pass, not even the empty one
QUEUE_TYPE: Final = "x-queue-type"
Do = Callable[[], object]


class ImportStep:
    """One thing to do, which was found to be possible; `what` is how errors name it."""

    def __init__(self, what: str, do: Do) -> None:
        self.what = what
        self.do = do


class ImportPlan:
    """The plan of an import: the steps, the parts left out and the faults of a definitions file.

    vhosts     of the broker
    only       all is about this one, whatever the entries say; None: every entry says where it belongs
    importer   name of the user that imports it, who declares its queues; empty for the configuration
    notes      what of the file stays otherwise than the file says, since it is there already; for the log
    left_out   what of the file cannot be in force here
    faults     of entries that are none of a definitions file: the file is refused for them
    """

    def __init__(
        self, vhosts: Vhosts, document: Mapping[str, object], only: Vhost | None = None, importer: str = ""
    ) -> None:
        self.vhosts = vhosts
        self.document = document
        self.only = only
        self.importer = importer
        self.notes: list[str] = []
        self.left_out: list[LeftOut] = []
        self.faults: list[str] = []
        self.names: dict[bytes, str] = {  # of vhosts that there will be, each with its type of queues
            name: vhost.catalog.settings.default_queue_type for name, vhost in vhosts.by_name.items()
        }
        self.users: set[str] = set(vhosts.directory.users.by_name)
        self.named: set[tuple[bytes, str, bytes]] = set()  # queues and exchanges of the file, also those left out
        self.queues: dict[tuple[bytes, bytes], Declared] = {}  # queues that the file declares, by vhost and name
        self.exchanges: dict[tuple[bytes, bytes], Exchange] = {}  # exchanges that the file declares, without bindings

    def steps(self) -> list[ImportStep]:
        """Return all steps that can be done; `refusal` says whether they may be done."""
        return [step for step in self.checked() if step is not None]

    def checked(self) -> Iterator[ImportStep | None]:
        """Check the entries one by one, and yield the step for each; None where there is nothing to do."""
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
        self.note_sections()
        for section in SECTIONS if self.only is None else OF_ONE_VHOST:
            entries = self.document.get(section)
            if entries is None:
                continue
            if not isinstance(entries, list):
                self.faults.append(f"{section}: is no list")
                continue
            numbered = sorted(enumerate(entries), key=lambda each: section == "queues" and is_view_entry(each[1]))
            for index, entry in numbered:
                yield self.step(section, index, entry, checks[section])

    def step(
        self, section: str, index: int, entry: object, check: Callable[[GivenEntry], Do | None]
    ) -> ImportStep | None:
        """Return the step for one entry; None if there is nothing to do, or nothing can be done."""
        try:
            given = GivenEntry(section, index, entry)
            given.note_slips(FIELDS[section])
            try:
                do = check(given)
            except EntryFault:
                raise
            except RequestError as error:
                reason = error.text.removeprefix(f"{given.where}: ")
                self.left_out.append(LeftOut(given.where, "", reason, given.may_lose))
                return None
        except EntryFault as error:
            self.faults.append(error.text)
            return None
        self.left_out += given.left_out
        return None if do is None else ImportStep(given.where, do)

    def refusal(self, strict: bool = False) -> RequestError | None:
        """Return the error that names all faults of the file, once the entries are checked; None if it has none.

        strict  what cannot be in force is a fault
        """
        return refusal_of(self.faults, self.left_out, strict)

    def note_sections(self) -> None:
        """Leave out sections of the file that are unknown."""
        for name, value in self.document.items():
            if name not in SECTIONS and name not in ABOUT_THE_FILE and value not in (None, [], {}):
                meant = slip_of(name, SECTIONS)
                hint = f"; did you mean {meant}?" if meant else ""
                self.left_out.append(LeftOut(name[:SHOWN_MAX], "", f"no such section{hint}", bool(meant)))

    # ---- where entries belong

    def vhost_of(self, given: GivenEntry) -> bytes:
        """Return the name of the vhost that an entry is about."""
        if self.only is not None:
            return self.only.name
        name = given.octets("vhost")
        if name not in self.names:
            raise given.unknown("vhost", text(name), "does not exist, and is not among the vhosts of the file")
        return name

    def user_of(self, given: GivenEntry) -> str:
        name = given.text("user")
        if name not in self.users:
            raise given.unknown("user", name, "does not exist, and is not among the users of the file")
        return name

    def there(self, name: bytes) -> Vhost:
        """Return the vhost of that name and mark it as touched, as a step is about to change it."""
        vhost = self.vhosts.by_name[name]
        vhost.touch()
        return vhost

    # ---- what entries ask for

    def vhost(self, given: GivenEntry) -> Do | None:
        name = given.octets("name")
        if not 0 < len(name) <= NAME_OCTETS_MAX:
            raise given.fault("name", text(name), f"has not 1 to {NAME_OCTETS_MAX} octets")
        said = given.part({**given.table("metadata"), **given.fields})
        wanted: dict[str, object] = {}
        if said.value("description", None) is not None:
            wanted["description"] = said.text("description")
        if said.value("tags", None) is not None:
            wanted["tags"] = said.texts("tags")
        kind = said.value("default_queue_type", "undefined")
        if kind != "undefined":
            wanted["default_queue_type"] = kind
        if said.value("protected_from_deletion", None) is not None:
            wanted[PROTECTED] = said.flag("protected_from_deletion", False)
        settings: dict[str, object] = {}
        for field, value in wanted.items():
            try:
                VhostSettings().change({field: value})
            except RequestError as error:
                given.leave_out(field, error.text)
            else:
                settings[field] = value
        settings |= vhost_limits(given, given.table("limits"), "limits")
        if said.value("tracing", False) is True:
            given.leave_out("tracing", "means nothing to this broker; `forebay trace` traces")
        self.names[name] = str(settings.get("default_queue_type", self.names.get(name, CLASSIC_TYPE)))
        return partial(self.make_vhost, name, settings)

    def make_vhost(self, name: bytes, settings: dict[str, object]) -> None:
        vhost = self.vhosts.add(name)
        if {**vhost.catalog.settings.fields(), **settings} != vhost.catalog.settings.fields():
            self.vhosts.change(vhost, settings)

    def user(self, given: GivenEntry) -> Do | None:
        name, tags = given.text("name"), given.texts("tags")
        if not name:
            raise given.fault("name", name, "is no name")
        hash = imported_hash(given.text("password_hash", ""), given.text("hashing_algorithm", ""))
        limits = user_limits(given, given.table("limits"))
        check_user(name, hash, tags)
        self.users.add(name)
        known = self.vhosts.directory.users.by_name.get(name)
        if known is not None and known.configured:
            self.notes.append(f"user '{name}' is of the configuration, and stays as it is")
            return None
        return partial(self.make_user, name, hash, tags, limits)

    def make_user(self, name: str, hash: str, tags: list[str], limits: dict[str, object]) -> None:
        put_user(self.vhosts.directory.users, name, hash, tags)
        if limits:
            self.vhosts.directory.users.set_limits(name, limits)

    def permission(self, given: GivenEntry) -> Do | None:
        vhost, user = self.vhost_of(given), self.user_of(given)
        patterns = [pattern_of(given, field, check_pattern) for field in ("configure", "write", "read")]
        return partial(self.vhosts.directory.users.set_permissions, user, vhost, *patterns)

    def topic_permission(self, given: GivenEntry) -> Do | None:
        vhost, user = self.vhost_of(given), self.user_of(given)
        write, read = (pattern_of(given, field, check_topic_pattern) for field in ("write", "read"))
        return partial(
            self.vhosts.directory.users.set_topic_permissions, user, vhost, given.octets("exchange"), write, read
        )

    def parameter(self, given: GivenEntry) -> Do | None:
        vhost, component, name = self.vhost_of(given), given.text("component"), given.text("name")
        if component == LIMITS:
            settings = vhost_limits(given, given.table("value"), "value")
            return partial(self.make_vhost, vhost, settings) if settings else None
        if component == OPERATOR_POLICY:
            return self.policy_named(given, vhost, name, given.part(given.table("value")), True)
        value = given.fields.get("value")
        check_name("component", component)
        check_name("name", name)
        check_value(name, value)
        reason = f"a parameter of '{component}' is kept, and means nothing to this broker"
        given.leave_out("", reason, component in MOVERS)
        return partial(self.vhosts.directory.parameters.set, vhost, component, name, value)

    def global_parameter(self, given: GivenEntry) -> Do | None:
        name, value = given.text("name"), given.fields.get("value")
        check_name("name", name)
        check_value(name, value)
        return partial(self.vhosts.directory.parameters.set_global, name, value)

    def policy(self, given: GivenEntry) -> Do | None:
        return self.policy_named(given, self.vhost_of(given), given.text("name"), given, False)

    def policy_named(self, given: GivenEntry, vhost: bytes, name: str, said: GivenEntry, operator: bool) -> Do | None:
        """Return the step for a policy, without keys that cannot be in force here."""
        wanted = said.table("definition")
        priority, apply_to = said.value("priority", 0), said.text("apply-to", "all")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise given.fault("priority", priority, "is no whole number")
        given.may_lose = any(is_about_loss(key) for key in wanted)
        definition: dict[str, object] = {}
        for key, value in wanted.items():
            reason = self.definition_fault(name, operator, key, value)
            if reason:
                given.leave_out(f"definition.{key}", reason, is_about_loss(key))
            else:
                definition[key] = value
        if not definition and wanted:
            given.leave_out("", "nothing is left of the policy, which is not made", given.may_lose)
            return None
        policy = check_policy(name, operator, said.text("pattern"), apply_to, definition, priority)
        return partial(self.make_policy, vhost, policy)

    def definition_fault(self, name: str, operator: bool, key: str, value: object) -> str:
        """Return the reason why a key of a policy cannot be in force; "" if it can."""
        who = f"{kind_name(operator)} '{name}'"
        if key in MEANINGLESS and key not in BY_KEY:
            return "means nothing to this broker, and nothing is lost without it"
        if key not in BY_KEY:
            return unknown_reason(key, BY_KEY)
        try:
            check_definition(who, operator, key, value)
            placement_in(self.vhosts.options).check_definition({key: value}, who)
        except RequestError as error:
            return error.text
        return ""

    def make_policy(self, vhost: bytes, policy: Policy) -> None:
        put_policy(self.there(vhost), policy)

    def exchange(self, given: GivenEntry) -> Do | None:
        vhost, name = self.vhost_of(given), given.octets("name")
        self.named.add((vhost, "exchange", name))
        kind = given.text("type")
        durable, auto_delete = given.flag("durable", True), given.flag("auto_delete", False)
        internal = given.flag("internal", False)
        if kind.encode() not in KINDS:
            raise given.unknown("type", kind, f"is an unknown exchange type; {hint(kind, map(text, KINDS))}")

        def declared(arguments: dict[str, object]) -> DeclareExchange:
            return DeclareExchange(name, kind.encode(), arguments, durable, auto_delete, internal)

        arguments, reasons = fitting(
            given.table("arguments"),
            (*KNOWN_TO_EXCHANGES, *FOREIGN_TO_EXCHANGES),
            DELAYED_TYPE,
            lambda arguments: declared(arguments).made(vhost),
        )
        leave_out_arguments(given, reasons)
        if not name:
            return None
        there = self.known_exchange(vhost, name)
        if there is not None:
            is_same = (there.kind, there.durable, there.auto_delete) == (kind.encode(), durable, auto_delete)
            if not is_same or (there.internal, there.arguments) != (internal, arguments):
                self.notes.append(f"{given.where}: the exchange is there, declared otherwise, and stays as it is")
            return None
        if name.startswith(RESERVED):
            self.notes.append(
                f"{given.where}: names that begin with {RESERVED.decode()} are the broker's; it is not made"
            )
            return None
        wanted = declared(arguments)
        self.exchanges[vhost, name] = wanted.made(vhost)
        return partial(self.make_exchange, vhost, wanted)

    def make_exchange(self, vhost: bytes, wanted: DeclareExchange) -> None:
        self.there(vhost).catalog.add_exchange(wanted)

    def queue(self, given: GivenEntry) -> Do | None:
        vhost, name = self.vhost_of(given), given.octets("name")
        self.named.add((vhost, "queue", name))
        durable, auto_delete = given.flag("durable", True), given.flag("auto_delete", False)
        if not name:
            raise given.fault("name", "", "is no name")
        check_queue_name(name)
        there = self.known_queue(vhost, name)
        placement = placement_in(self.vhosts.options)
        kind = self.names.get(vhost, CLASSIC_TYPE) if durable and not auto_delete else CLASSIC_TYPE

        def check(arguments: dict[str, object]) -> None:
            check_declaration(given.where, False, durable, False, auto_delete, {QUEUE_TYPE: kind, **arguments})
            if there is None:
                placement.check_arguments(arguments, given.where)

        check_view_arguments(given.where, durable, False, given.table("arguments"))
        if there is None and SOURCE in given.table("arguments"):
            self.check_source(vhost, given, text_argument(given.table("arguments"), SOURCE))
        arguments, reasons = fitting(given.table("arguments"), (*KNOWN, *FOREIGN), QUEUE_TYPE, check)
        leave_out_arguments(given, reasons)
        if there is not None:
            if there != (durable, auto_delete, arguments):
                self.notes.append(f"{given.where}: the queue is there, declared otherwise, and stays as it is")
            return None
        self.queues[vhost, name] = (durable, auto_delete, arguments)
        return partial(self.make_queue, vhost, name, durable, auto_delete, arguments)

    def check_source(self, vhost: bytes, given: GivenEntry, name: str) -> None:
        """Raise RequestError unless a view's stream of that name exists in the vhost or the file."""
        stream = self.known_queue(vhost, name.encode())
        if stream is None:
            reason = self.absence(vhost, "queue", name.encode())
            raise invalid(SOURCE, given.where, f"'{name}' {reason}")
        if stream[2].get(QUEUE_TYPE, self.names.get(vhost, CLASSIC_TYPE)) != STREAM_TYPE:
            raise invalid(SOURCE, given.where, f"'{name}' is no stream")

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
        key, arguments = given.octets("routing_key", ""), given.table("arguments")
        kind = given.text("destination_type", "queue")
        if kind not in {"queue", "exchange"}:
            raise given.fault("destination_type", kind, "is neither queue nor exchange")
        if not source:
            return None  # every queue is bound so
        exchange = self.known_exchange(vhost, source)
        if exchange is None:
            raise given.unknown("source", text(source), self.absence(vhost, "exchange", source))
        if not self.is_known(vhost, destination, kind):
            raise given.unknown("destination", text(destination), self.absence(vhost, kind, destination))
        if not isinstance(exchange, HeadersExchange):
            unknown = [name for name in arguments if name not in FOREIGN_TO_BINDINGS]
            for name in unknown:
                given.leave_out(f"arguments.{name}", f"{NOT_IN_FORCE}: only headers exchanges look at arguments")
            arguments = {name: value for name, value in arguments.items() if name not in unknown}
        queue = self.known_queue(vhost, destination) if kind == "queue" else None
        if queue is not None and SOURCE in queue[2]:
            raise given.unknown("destination", text(destination), f"is a view: bind '{queue[2][SOURCE]}'")
        check_binding(vhost, exchange, arguments)
        exchange.check_bind(key, arguments)
        return partial(self.bind, vhost, kind == "queue", destination, source, key, arguments)

    def absence(self, vhost: bytes, kind: str, name: bytes) -> str:
        """Return the words for an end of a binding that there is not."""
        left_out = ", for it was left out" if (vhost, kind, name) in self.named else ""
        return f"is no {kind} of the vhost or the file{left_out}"

    def bind(
        self, vhost: bytes, to_queue: bool, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
    ) -> None:
        if to_queue:
            self.there(vhost).catalog.bind(destination, source, key, arguments)
        else:
            self.there(vhost).catalog.bind_exchange(destination, source, key, arguments)

    def known_exchange(self, vhost: bytes, name: bytes) -> Exchange | None:
        """Return an exchange that exists or that the file declares; None if there is neither."""
        known = self.vhosts.by_name.get(vhost)
        there = None if known is None else known.catalog.bindings.exchanges.get(name)
        if there is None and known is None and name.startswith(RESERVED):
            there = built_in_exchange(name)  # a vhost that the file makes has these, too
        return there or self.exchanges.get((vhost, name))

    def known_queue(self, vhost: bytes, name: bytes) -> Declared | None:
        """Return the declaration of a queue that exists or that the file declares; None if there is neither."""
        known = self.vhosts.by_name.get(vhost)
        there = None if known is None else known.catalog.queues.get(name)
        if there is None:
            return self.queues.get((vhost, name))
        return there.spec.durable, there.spec.auto_delete, there.spec.arguments

    def is_known(self, vhost: bytes, name: bytes, kind: str) -> bool:
        """Return whether a binding's destination exists or is declared by the file."""
        if kind == "exchange":
            return self.known_exchange(vhost, name) is not None
        return self.known_queue(vhost, name) is not None


def pattern_of(given: GivenEntry, field: str, check: Callable[[str, str], None]) -> str:
    """Return a pattern of a permission; one that lets nothing pass in place of one that cannot be in force here."""
    pattern = given.text(field)
    try:
        check(field, pattern)
    except RequestError as error:
        given.leave_out(field, f"{error.text}; {NOTHING!r}, which lets nothing pass, stands in its place")
        return NOTHING
    return pattern


def leave_out_arguments(given: GivenEntry, reasons: Mapping[str, str]) -> None:
    """Leave out arguments of an entry, each for its reason."""
    for name, reason in reasons.items():
        given.leave_out(f"arguments.{name}", reason, is_about_loss(name))


def vhost_limits(given: GivenEntry, limits: Mapping[str, object], field: str) -> dict[str, object]:
    """Return the settings for the limits of a vhost that can be in force; the others are left out."""
    settings: dict[str, object] = {}
    for name, value in limits.items():
        try:
            found = limit_settings({name: value}, OF_VHOSTS)
            VhostSettings().change(found)
        except RequestError as error:
            given.leave_out(f"{field}.{name}", error.text)
        else:
            settings |= found
    return settings


def user_limits(given: GivenEntry, limits: Mapping[str, object]) -> dict[str, object]:
    """Return the limits of a user that can be in force; the others are left out."""
    settings: dict[str, object] = {}
    for name, value in limits.items():
        try:
            found = limit_settings({name: value}, OF_USERS)
            check_limits(found)
        except RequestError as error:
            given.leave_out(f"limits.{name}", error.text)
        else:
            settings |= found
    return settings


def incomplete(step: ImportStep, done: int, error: RequestError) -> RequestError:
    """Return the error for a step that failed after its check, as the broker changed meanwhile."""
    before = f"; what stands before it was done, {done} entries" if done else ""
    return RequestError(error.reason, f"{step.what}: {error.text}{before}")


def is_view_entry(entry: object) -> bool:
    """Return whether an entry of the section "queues" is a view, which is made after the stream that it names."""
    arguments = entry.get("arguments") if isinstance(entry, dict) else None
    return isinstance(arguments, dict) and SOURCE in arguments
