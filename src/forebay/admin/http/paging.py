"""Lists as a caller wants them: a page, a filter on names, an order, some of the fields; as RabbitMQ has it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

import orjson
from starlette.responses import Response

from forebay.admin.http.answer import as_json
from forebay.admin.http.slices import encoded, sliced
from forebay.admin.login import Broker
from forebay.admin.web.fields import Provided, Query
from forebay.core.errors import INVALID, RequestError
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern

JSON: Final = "application/json"
PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 500
PAGE_MAX: Final = 1 << 31
NAME_CHARACTERS_MAX: Final = 1000
COLUMNS_CHARACTERS_MAX: Final = 4000
DIGITS: Final = re.compile("[0-9]+")
NUMBER: Final = re.compile("-?[0-9]{1,20}")
BAD_REQUEST: Final = "bad_request"
DIGITS_MAX: Final = 20  # longer numbers are sorted as texts

OUT_OF_RANGE: Final = "page_out_of_range"
INVALID_PAGE: Final = "invalid_pagination_parameters"
PAGE_PARAMETERS: Final = ("page", "page_size")
UNDEFINED: Final = "undefined"  # as RabbitMQ calls a parameter that is not given

Path = tuple[str, ...]  # of a field within an object: a.b is ("a", "b")
Source = TypeVar("Source")


class PageFault(RequestError):
    """A page that cannot be: `word` is RabbitMQ's for the error, and the text is in its words, too."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(INVALID, text)
        self.word = word


def page_fault(given: Mapping[str, str]) -> PageFault:
    """Return the fault of the parameters `page` and `page_size`, of which at least one is wrong."""
    for name in PAGE_PARAMETERS:
        value = given.get(name, "0")
        if NUMBER.fullmatch(value) is None:
            return PageFault(BAD_REQUEST, f"Pagination parameters are invalid: {name}: {value[:DIGITS_MAX]!r}")
    page, size = (given.get(name, UNDEFINED) for name in PAGE_PARAMETERS)
    return PageFault(INVALID_PAGE, f"Invalid pagination parameters: page number {page}, page size {size}")


@dataclass(frozen=True, slots=True)
class Listing:
    """A list as a caller wants it.

    page     counted from 1; None: all of it, as a plain list
    name     what names have to contain, in whichever case; empty: anything
    pattern  the same as a regular expression
    search   what has to stand in anything that people see of it, in whichever case; empty: anything
    sort     path of the field that decides the order; empty: the list's own order
    columns  paths of the fields that are wanted; empty: all
    turns    lists of all callers are made within it
    """

    page: int | None = None
    page_size: int = PAGE_SIZE_DEFAULT
    name: str = ""
    pattern: Pattern | None = None
    search: str = ""
    sort: Path = ()
    reverse: bool = False
    columns: tuple[Path, ...] = ()
    turns: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)

    def wants(self, name: str) -> bool:
        """True if the filter lets something of this name pass."""
        if self.pattern is not None:
            return self.pattern.find(name) is True
        return not self.name or self.name in name.lower()


async def listing_of(
    app: Broker,
    page: Annotated[
        int | None, Query(ge=1, le=PAGE_MAX, description="Which page, from 1; without it the whole list.")
    ] = None,
    page_size: Annotated[
        int, Query(ge=1, le=PAGE_SIZE_MAX, description="How many items a page has.")
    ] = PAGE_SIZE_DEFAULT,
    # Not `name`, which a path may have.
    part: Annotated[
        str, Query(alias="name", max_length=NAME_CHARACTERS_MAX, description="Only what has this in its name.")
    ] = "",
    use_regex: Annotated[
        bool, Query(description="`name` is a regular expression, as in docs/reference/filters.md.")
    ] = False,
    search: Annotated[
        str,
        Query(max_length=NAME_CHARACTERS_MAX, description="Only what has this in anything that the page shows."),
    ] = "",
    sort: Annotated[
        str,
        Query(
            max_length=NAME_CHARACTERS_MAX,
            description="Order by this field, say `messages` or `message_stats.publish`.",
        ),
    ] = "",
    sort_reverse: Annotated[bool, Query(description="The last first.")] = False,
    columns: Annotated[
        str,
        Query(max_length=COLUMNS_CHARACTERS_MAX, description="Only these fields, say `name,messages_details.rate`."),
    ] = "",
) -> Listing:
    """The list that the query of a request asks for; RequestError(INVALID) names the parameter and the value."""
    pattern = None
    if use_regex and part:
        try:
            pattern = Pattern(part if part.startswith("(?i)") else f"(?i){part}")
        except BadPattern as error:
            raise RequestError(INVALID, f"name: {part!r} is no regular expression: {error}") from None
    return Listing(
        page,
        page_size,
        part.lower(),
        pattern,
        search.lower(),
        path_of(sort),
        sort_reverse,
        tuple(map(path_of, filter(None, columns.split(",")))),
        app.door.long,
    )


Wanted = Annotated[Listing, Provided(listing_of)]


def path_of(field: str) -> Path:
    """The path of a field whose name may have dots in it."""
    return tuple(field.split(".")) if field else ()


def field_at(fields: dict[str, object], path: Path) -> object:
    """The field of that path; None where there is none."""
    value: object = fields
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def rank(value: object) -> tuple[int, float, str]:
    """The key by which values of any types are sorted: what is missing first, then numbers, then texts.

    Numbers in texts count as numbers: `device-2` comes before `device-19`.
    """
    if isinstance(value, bool | int | float):
        return (1, float(value), "")
    if isinstance(value, str):
        return (2, 0.0, DIGITS.sub(padded, value))
    return (0, 0.0, "") if value is None else (3, 0.0, str(value))


def padded(digits: re.Match[str]) -> str:
    """Digits to a length at which they are in order as a text."""
    return digits[0].zfill(DIGITS_MAX)


def only(fields: dict[str, object], columns: Sequence[Path]) -> dict[str, object]:
    """Keep those fields that have these paths."""
    found: dict[str, object] = {}
    for path in columns:
        value = field_at(fields, path)
        if value is None and path[-1] not in holder_of(fields, path):
            continue
        into = found
        for name in path[:-1]:
            inner = into.setdefault(name, {})
            if not isinstance(inner, dict):
                break
            into = inner
        else:
            into[path[-1]] = value
    return found


def holder_of(fields: dict[str, object], path: Path) -> dict[str, object]:
    """The object that has, or would have, the field of that path."""
    holder = field_at(fields, path[:-1])
    return holder if isinstance(holder, dict) else {}


async def ordered(
    items: Sequence[Source], make: Callable[[Source], dict[str, object] | None], wanted: Listing
) -> list[dict[str, object]] | None:
    """All items made and in the order that is asked for; None where the list's own will do."""
    if not wanted.sort:
        return None
    made = present(await sliced(items, make))
    keys = await sliced(made, lambda fields: rank(field_at(fields, wanted.sort)))
    await asyncio.sleep(0)
    order = sorted(range(len(made)), key=keys.__getitem__, reverse=wanted.reverse)
    return [made[index] for index in order]


def present(made: list[dict[str, object] | None]) -> list[dict[str, object]]:
    """Return what is shown of the items that are not gone."""
    return [fields for fields in made if fields is not None]


async def answer_list(
    items: Sequence[Source],
    name_of: Callable[[Source], str],
    make: Callable[[Source], dict[str, object] | None],
    wanted: Listing,
    title_of: Callable[[Source], str] | None = None,
    words_of: Callable[[Source], str] | None = None,
) -> Response:
    """The part of a list that a caller wants.

    items  in the list's own order, and only those that the caller may see
    make   what is shown of one, None if it is gone; it is asked for as few as will do
    title_of  another name that people see, by which they filter as well
    words_of  all that people see of one, in which they search; None: its names alone
    raises  RequestError(INVALID): there are not so many pages
    """
    async with wanted.turns:
        return await made_list(items, name_of, make, wanted, title_of, words_of)


async def made_list(
    items: Sequence[Source],
    name_of: Callable[[Source], str],
    make: Callable[[Source], dict[str, object] | None],
    wanted: Listing,
    title_of: Callable[[Source], str] | None,
    words_of: Callable[[Source], str] | None,
) -> Response:
    total = len(items)
    if wanted.name:
        passed = await sliced(
            items,
            lambda item: wanted.wants(name_of(item)) or (title_of is not None and wanted.wants(title_of(item))),
        )
        items = [item for item, passes in zip(items, passed, strict=True) if passes]
    if wanted.search:
        told = words_of or title_of or name_of
        hits = await sliced(items, lambda item: wanted.search in told(item).lower())
        items = [item for item, hit in zip(items, hits, strict=True) if hit]
    found = len(items)
    made = await ordered(items, make, wanted)
    if made is None and wanted.reverse:
        items = items[::-1]
    first, end = 0, found
    if wanted.page is not None:
        first = (wanted.page - 1) * wanted.page_size
        end = first + wanted.page_size
        if first >= found and wanted.page > 1:
            where = f"page: {wanted.page} page size: {wanted.page_size}, len: {found}"
            raise PageFault(OUT_OF_RANGE, f"Page out of range, {where}")
    shown = present(await sliced(items[first:end], make)) if made is None else made[first:end]
    if wanted.columns:
        shown = await sliced(shown, lambda fields: only(fields, wanted.columns))
    octets = await encoded(shown)
    if wanted.page is None:
        return Response(octets, media_type=JSON)
    return as_json(
        {
            "filtered_count": found,
            "item_count": len(shown),
            "items": orjson.Fragment(octets),
            "page": wanted.page,
            "page_count": -(-found // wanted.page_size),
            "page_size": wanted.page_size,
            "total_count": total,
        }
    )


def answer_one(fields: dict[str, object], wanted: Listing) -> Response:
    """One object, with the fields that a caller wants."""
    return as_json(only(fields, wanted.columns) if wanted.columns else fields)
