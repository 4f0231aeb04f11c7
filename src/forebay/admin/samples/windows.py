"""The samples that a request asks for: how far back, and in which steps."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Query, Request

from forebay.admin.samples.rates import RateSamples
from forebay.admin.samples.samples import SampleWindow, Windows

AGE_S_MAX: Final = 600


Age = Query(ge=1, le=AGE_S_MAX, description="Beside rates, samples of so many seconds back; needs ..._incr.")
Step = Query(ge=1, le=AGE_S_MAX, description="Seconds between two samples.")


async def windows_of(
    lengths_age: Annotated[int | None, Age] = None,
    lengths_incr: Annotated[int | None, Step] = None,
    msg_rates_age: Annotated[int | None, Age] = None,
    msg_rates_incr: Annotated[int | None, Step] = None,
    data_rates_age: Annotated[int | None, Age] = None,
    data_rates_incr: Annotated[int | None, Step] = None,
    node_stats_age: Annotated[int | None, Age] = None,
    node_stats_incr: Annotated[int | None, Step] = None,
) -> Windows:
    """The windows that the query of a request asks for; one needs both its parameters."""
    return Windows(
        window(lengths_age, lengths_incr),
        window(msg_rates_age, msg_rates_incr),
        window(data_rates_age, data_rates_incr),
        window(node_stats_age, node_stats_incr),
    )


def window(age: int | None, step: int | None) -> SampleWindow | None:
    return None if age is None or step is None else SampleWindow(age, step)


Asked = Annotated[Windows, Depends(windows_of)]


async def rates_for(request: Request) -> RateSamples:
    """The samples of the broker that answers."""
    rates = request.app.state.rates
    assert isinstance(rates, RateSamples)
    return rates


Sampled = Annotated[RateSamples, Depends(rates_for)]
