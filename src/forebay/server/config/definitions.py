"""Definitions that are taken in as the broker starts, before anybody can connect."""

from __future__ import annotations

import logging
from hashlib import sha256
from pathlib import Path
from typing import Final

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError, RequestError
from forebay.core.options import Options
from forebay.core.reading.json_text import read_json
from forebay.directory.logins.passwords import ARGON2_NAME, SALT_OCTETS, hash_password
from forebay.directory.parameters import IMPORTED
from forebay.management.definitions.imported import ImportPlan
from forebay.management.definitions.left_out import in_order
from forebay.server.system.chance import SystemRandom

OPTION: Final = "definitions_import_path"
logger = logging.getLogger("forebay")


def import_definitions(vhosts: Vhosts, options: Options) -> None:
    """Import the files that the option names, if any. Raises OptionError, which says which file is wrong, and where."""
    if not options.definitions_import_path:
        return
    files = files_at(Path(options.definitions_import_path))
    texts = [read(file) for file in files]
    mark = sha256(b"\0".join(texts)).hexdigest()
    if options.definitions_skip_if_unchanged and vhosts.directory.parameters.values.get(IMPORTED) == mark:
        logger.info("%s: nothing has changed", OPTION)
        return
    for file, octets in zip(files, texts, strict=True):
        try:
            count = take_in(vhosts, document_of(octets), options.definitions_strict)
        except (RequestError, ValueError) as error:
            raise OptionError(f"{OPTION}: {file}: {error}") from None
        logger.info("%s: %s: %d entries", OPTION, file, count)
    vhosts.directory.parameters.set_global(IMPORTED, mark)


def files_at(path: Path) -> list[Path]:
    """Return the file at `path`, or the .json files of that folder by name. Raises OptionError if neither exists."""
    if path.is_dir():
        return sorted(path.glob("*.json"))
    if not path.exists():
        raise OptionError(f"{OPTION}: {path} does not exist")
    return [path]


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise OptionError(f"{OPTION}: {file}: {error.strerror}") from error


def document_of(octets: bytes) -> dict[str, object]:
    """Parse a file of definitions, and hash its passwords. Raises ValueError if it holds no JSON object."""
    document = read_json(octets)
    if not isinstance(document, dict):
        raise ValueError("is no object")
    users = document.get("users")
    for user in users if isinstance(users, list) else ():
        password = user.get("password") if isinstance(user, dict) else None
        if isinstance(password, str) and password and "password_hash" not in user:
            user["password_hash"] = hash_password(password, SystemRandom().octets(SALT_OCTETS))
            user["hashing_algorithm"] = ARGON2_NAME
    return document


def take_in(vhosts: Vhosts, document: dict[str, object], strict: bool) -> int:
    """Check a file, then apply as much of it as possible; return the number of entries. Raises RequestError.

    strict  a file of which a part cannot be in force is refused as a whole
    """
    plan = ImportPlan(vhosts, document)
    steps = plan.steps()
    refusal = plan.refusal(strict)
    if refusal is not None:
        raise refusal
    for part in in_order(plan.left_out):
        logger.warning("%s: left out: %s", OPTION, part.line())
    for step in steps:
        step.do()
    for note in plan.notes:
        logger.info("%s: %s", OPTION, note)
    return len(steps)
