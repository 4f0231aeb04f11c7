"""/api/exchanges: exchanges, and what goes through them."""

from __future__ import annotations

from starlette.responses import Response

from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import ExchangeName, VhostName, exchange_named, in_path
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import EXCHANGES, ONE_EXCHANGE
from forebay.admin.rights import Manager, check_vhost, seen_vhosts
from forebay.admin.samples.rates import EXCHANGE, RateSamples, exchange_numbers
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.management.definitions.exported import exchange_entry
from forebay.routing.exchange import Exchange, text

Placed = tuple[Vhost, Exchange]
router = RouteGroup(prefix="/api", tags=["exchanges"])


def exchanges_in(vhosts: list[Vhost]) -> list[Placed]:
    """All exchanges of these vhosts, by vhost and name."""
    tables = [(vhost, vhost.catalog.bindings.exchanges) for vhost in vhosts]
    return [(vhost, exchanges[name]) for vhost, exchanges in tables for name in sorted(exchanges)]


def name_of(placed: Placed) -> str:
    return text(placed[1].name)


def exchange_fields(rates: RateSamples, asked: Windows, placed: Placed) -> dict[str, object]:
    """One exchange."""
    vhost, exchange = placed
    policy = vhost.catalog.policies.of_exchange(exchange)
    fields: dict[str, object] = {
        **exchange_entry(vhost, exchange),
        **in_path(exchange.name),
        "policy": None if policy is None else policy.name,
        "forebay": {
            "alternate": None if exchange.alternate is None else text(exchange.alternate),
            "bindings": int(exchange.binding_count),
            "unroutable": int(exchange.flow.unroutable),
        },
    }
    numbers = exchange_numbers(exchange)
    if any(numbers):
        series = rates.exchanges.get((int(vhost.number), exchange.number))
        fields["message_stats"] = rates.stats(series, EXCHANGE, numbers, asked.messages, 0, len(numbers))
    return fields


@router.get("/exchanges", responses=EXCHANGES)
async def list_exchanges(app: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """The exchanges of all vhosts that the caller may see."""
    found = exchanges_in(seen_vhosts(app, caller))
    return await answer_list(found, name_of, lambda placed: exchange_fields(rates, asked, placed), wanted)


@router.get("/exchanges/{vhost:name}", responses=EXCHANGES)
async def list_exchanges_of_vhost(
    app: Broker, caller: Manager, rates: Sampled, vhost: VhostName, wanted: Wanted, asked: Asked
) -> Response:
    """The exchanges of a vhost."""
    found = exchanges_in([check_vhost(app, caller, vhost)])
    return await answer_list(found, name_of, lambda placed: exchange_fields(rates, asked, placed), wanted)


@router.get("/exchanges/{vhost:name}/{exchange:octets}", responses=ONE_EXCHANGE)
async def show_exchange(
    app: Broker,
    caller: Manager,
    rates: Sampled,
    vhost: VhostName,
    exchange: ExchangeName,
    wanted: Wanted,
    asked: Asked,
) -> Response:
    """One exchange."""
    where = check_vhost(app, caller, vhost)
    fields = exchange_fields(rates, asked, (where, where.catalog.check_exchange(exchange_named(exchange))))
    fields["incoming"] = []
    fields["outgoing"] = []
    return answer_one(fields, wanted)
