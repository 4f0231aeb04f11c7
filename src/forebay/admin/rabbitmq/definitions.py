"""/api/definitions: what the broker consists of as one file, and files taken in."""

from __future__ import annotations

import asyncio
import email.message
import email.parser
import logging
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from forebay import __version__
from forebay.admin.caller import Caller
from forebay.admin.changing import CHANGED, DONE_STATUS, noted
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import VhostName
from forebay.admin.http.slices import sliced
from forebay.admin.login import Broker
from forebay.admin.rabbitmq.node.node import SPOKEN_VERSION
from forebay.admin.rabbitmq.node.overview import cluster_name
from forebay.admin.rabbitmq.parameters import parameters_of
from forebay.admin.rabbitmq.permissions import permission_fields, topic_fields
from forebay.admin.rabbitmq.users import kept_hash
from forebay.admin.rights import Administrator, check_vhost
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.json_text import JsonError, NotJson, read_json
from forebay.directory.logins.passwords import exported_hash
from forebay.directory.parameters import IMPORTED
from forebay.management.definitions.exported import (
    binding_entry,
    bindings_of,
    exchange_entry,
    exchanges_of,
    metadata,
    policy_entry,
    queue_entry,
    queues_of,
    user_entry,
    vhost_entry,
)
from forebay.management.definitions.imported import ImportPlan, ImportStep, incomplete
from forebay.management.definitions.left_out import in_order
from forebay.management.definitions.limits import limits_of
from forebay.server.broker_view import BrokerView

router = RouteGroup(prefix="/api", tags=["definitions"], around=noted)
logger = logging.getLogger("forebay")

ENTRIES_AT_ONCE: Final = 20
LIST_BEGIN: Final = ord("[")
MULTIPART: Final = "multipart/"
FILE: Final = "file"  # the part of a form that the page of RabbitMQ sends
DOWNLOAD_CHARACTERS_MAX: Final = 255
Download = Annotated[
    str, Query(max_length=DOWNLOAD_CHARACTERS_MAX, description="Name under which browsers save the answer.")
]
DOCUMENT: Final[dict[str, Any]] = {"type": "object", "additionalProperties": True}
BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        "application/json": {"schema": DOCUMENT},
        "multipart/form-data": {
            "schema": {"type": "object", "properties": {FILE: {"type": "string", "format": "binary"}}}
        },
    },
}
Strict = Annotated[bool, Query(description="Refuse the file as a whole if a part of it cannot be in force here.")]
LEFT_OUT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["left_out"],
    "properties": {
        "left_out": {
            "type": "array",
            "description": "First those by which messages may be lost, or stay where they are.",
            "items": {
                "type": "object",
                "properties": {
                    "entry": {"type": "string"},
                    "field": {"type": "string", "description": "Empty for the whole entry."},
                    "reason": {"type": "string"},
                    "may_lose_messages": {"type": "boolean"},
                },
            },
        }
    },
}
IMPORTED_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    **CHANGED,
    200: {"description": "Parts were left out.", "content": {"application/json": {"schema": LEFT_OUT}}},
}
EXPORTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The file.", "content": {"application/json": {"schema": DOCUMENT}}}
}


@router.get("/all-configuration", responses=EXPORTED)
@router.get("/definitions", responses=EXPORTED)
async def export_all(broker: Broker, caller: Administrator, download: Download = "") -> Response:
    """Everything but messages and connections, as RabbitMQ's definitions files say it."""
    vhosts = sorted(broker.vhosts.all(), key=lambda vhost: bytes(vhost.name))
    directory = broker.directory
    name = cluster_name(broker)
    async with broker.door.long:
        document: dict[str, object] = {
            **head("cluster"),
            "original_cluster_name": name,
            "explanation": f"Definitions of cluster '{name}'",
            "users": await sliced(directory.users(), user_entry),
            "vhosts": await sliced(vhosts, vhost_entry),
            "permissions": await sliced(directory.permissions(), permission_fields),
            "topic_permissions": await sliced(directory.topic_permissions(), topic_fields),
            "parameters": parameters_of(broker, vhosts),
            "global_parameters": global_parameters(broker),
            **await content_of(vhosts),
        }
        return as_file(document, download)


@router.post("/all-configuration", status=DONE_STATUS, responses=IMPORTED_ANSWERS, body=BODY)
@router.post("/definitions", status=DONE_STATUS, responses=IMPORTED_ANSWERS, body=BODY)
async def import_all(broker: Broker, caller: Administrator, request: Request, strict: Strict = False) -> Response:
    """Take in a file: make what is missing, and take nothing away. All of it is checked before anything is changed.

    What cannot be in force here is left out, and listed in the answer.
    """
    return await take_in(broker, caller, await document_of(request), None, strict)


@router.get("/definitions/{vhost:name}", responses=EXPORTED)
async def export_vhost(broker: Broker, caller: Administrator, vhost: VhostName, download: Download = "") -> Response:
    """The content of one vhost; users and permissions are not in it."""
    where = check_vhost(broker, caller, vhost)
    async with broker.door.long:
        content: dict[str, object] = {"parameters": parameters_of(broker, [where]), **await content_of([where])}
        document: dict[str, object] = {
            **head("single_virtual_host"),
            "original_vhost_name": vhost,
            "explanation": f"Definitions of virtual host '{vhost}'",
            "metadata": metadata(where),
            "description": where.catalog.settings.description,
            "default_queue_type": where.catalog.settings.default_queue_type,
            "limits": limits_of(where),
            **{section: await sliced(entries_of(content, section), without_vhost) for section in content},
        }
        return as_file(document, download)


@router.post("/definitions/{vhost:name}", status=DONE_STATUS, responses=IMPORTED_ANSWERS, body=BODY)
async def import_vhost(
    broker: Broker, caller: Administrator, vhost: VhostName, request: Request, strict: Strict = False
) -> Response:
    """Take policies, parameters, queues, exchanges and bindings of a file into one vhost, wherever they were."""
    return await take_in(broker, caller, await document_of(request), check_vhost(broker, caller, vhost), strict)


# ---- out


def head(format: str) -> dict[str, object]:
    return {
        "rabbit_version": SPOKEN_VERSION,
        "rabbitmq_version": SPOKEN_VERSION,
        "product_name": "forebay",
        "product_version": __version__,
        "rabbitmq_definition_format": format,
    }


async def content_of(vhosts: list[Vhost]) -> dict[str, object]:
    """The definitions of everything in vhosts."""
    policies: list[dict[str, object]] = []
    queues: list[dict[str, object]] = []
    exchanges: list[dict[str, object]] = []
    bindings: list[dict[str, object]] = []
    for vhost in vhosts:
        policies += await sliced(vhost.catalog.policies.listed(False), partial(policy_entry, vhost))
        queues += await sliced(queues_of(vhost), partial(queue_entry, vhost))
        exchanges += await sliced(exchanges_of(vhost), partial(exchange_entry, vhost))
        bindings += await sliced(bindings_of(vhost), partial(binding_entry, vhost))
    return {"policies": policies, "queues": queues, "exchanges": exchanges, "bindings": bindings}


def global_parameters(app: BrokerView) -> list[dict[str, object]]:
    values = app.directory.global_parameters()
    return [{"name": name, "value": values[name]} for name in sorted(values) if name != IMPORTED]


def entries_of(content: dict[str, object], section: str) -> list[dict[str, object]]:
    entries = content[section]
    assert isinstance(entries, list)
    return entries


def without_vhost(entry: dict[str, object]) -> dict[str, object]:
    return {field: value for field, value in entry.items() if field != "vhost"}


def as_file(document: dict[str, object], download: str) -> Response:
    """The document, for a browser to save where it has asked for that."""
    answer = as_json(document)
    if download:
        safe = "".join(character if character.isalnum() or character in "-_." else "_" for character in download)
        answer.headers["Content-Disposition"] = f'attachment; filename="{safe.encode("ascii", "replace").decode()}"'
    return answer


# ---- in


async def document_of(request: Request) -> dict[str, object]:
    """The file that a request brings, as its body or as a part of a form; RequestError(INVALID)."""
    body = await request.body()
    kind = request.headers.get("content-type", "")
    if kind.startswith(MULTIPART):
        body = part_of(kind, body)
    try:
        parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return {name: await decoded(name, part) for name, part in parts.items()}
    except msgspec.ValidationError:
        raise RequestError(INVALID, "not_json: the file is no object") from None
    except ValueError:
        raise await fault_of(body) from None


async def fault_of(body: bytes) -> RequestError:
    """Return the error that says why a file cannot be read, with the field where there is one."""
    try:
        await asyncio.to_thread(read_json, body)  # the file may be long
    except NotJson as error:
        return RequestError(INVALID, f"not_json: {error}")
    except JsonError as error:
        return RequestError(INVALID, str(error))
    return RequestError(INVALID, "not_json: the file cannot be read")


async def decoded(name: str, part: msgspec.Raw) -> object:
    """A member of a file; of a list entry by entry, with turns between, for there may be 32 MiB of them."""
    octets = bytes(part)
    if octets[0] != LIST_BEGIN:
        return read_json(octets, name)
    entries = msgspec.json.decode(octets, type=list[msgspec.Raw])
    return await sliced(enumerate(entries), lambda entry: read_json(bytes(entry[1]), f"{name}[{entry[0]}]"))


def part_of(kind: str, body: bytes) -> bytes:
    """The file within a form (RFC 7578)."""
    parser = email.parser.BytesParser()
    form = parser.parsebytes(b"Content-Type: " + kind.encode("latin-1", "replace") + b"\r\n\r\n" + body)
    for part in form.get_payload() if form.is_multipart() else ():
        assert isinstance(part, email.message.Message)
        if part.get_param("name", header="content-disposition") == FILE:
            octets = part.get_payload(decode=True)
            return octets if isinstance(octets, bytes) else b""
    raise RequestError(INVALID, f"the form has no part '{FILE}'")


async def take_in(
    app: BrokerView, caller: Caller, document: dict[str, object], only: Vhost | None, strict: bool
) -> Response:
    """Check a file, and then do what it asks for as far as that can be, in portions; the answer says what was left out.

    strict  a file of which a part cannot be in force is refused as a whole
    raises  RequestError: names all entries and fields that are wrong
    """
    await hash_passwords(document)
    plan = ImportPlan(app.vhosts, document, only, caller.user)
    steps: list[ImportStep] = []
    for index, checked_step in enumerate(plan.checked()):
        if checked_step is not None:
            steps.append(checked_step)
        await pause(index + 1)
    refusal = plan.refusal(strict)
    if refusal is not None:
        raise refusal
    left_out = in_order(plan.left_out)
    for index, part in enumerate(left_out):
        logger.warning("definitions: left out: %s", part.line())
        await pause(index + 1)
    for index, step in enumerate(steps):
        try:
            step.do()
        except RequestError as error:
            app.schedule()
            raise incomplete(step, index, error) from None
        await pause(index + 1)
    for note in plan.notes:
        logger.info("definitions: %s", note)
    await app.on_disk()
    if not left_out:
        return Response(status_code=DONE_STATUS)
    return as_json({"left_out": [part.fields() for part in left_out]})


async def pause(done: int) -> None:
    """Let the broker have a turn after every few: making a queue takes longer than showing one."""
    if done % ENTRIES_AT_ONCE == 0:
        await asyncio.sleep(0)


async def hash_passwords(document: dict[str, object]) -> None:
    """Put hashes in place of the passwords of users, as some files that people write have them."""
    users = document.get("users")
    for user in users if isinstance(users, Iterable) else ():
        password = user.get("password") if isinstance(user, dict) else None
        if isinstance(password, str) and "password_hash" not in user:
            user["password_hash"], user["hashing_algorithm"] = exported_hash(await kept_hash(password, None, None))
