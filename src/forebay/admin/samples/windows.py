"""The samples that a request asks for: how far back, and in which steps."""

from __future__ import annotations

from typing import Annotated, Final

from starlette.requests import Request

from forebay.admin.samples.rates import RateSamples
from forebay.admin.samples.samples import SampleWindow, Windows
from forebay.admin.web.fields import Provided, Query
from forebay.core.errors import INVALID, RequestError

AGE_S_MAX: Final = 86_400
SAMPLES_MAX: Final = 600  # of one number in an answer


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
        window("lengths", lengths_age, lengths_incr),
        window("msg_rates", msg_rates_age, msg_rates_incr),
        window("data_rates", data_rates_age, data_rates_incr),
        window("node_stats", node_stats_age, node_stats_incr),
    )


def window(name: str, age: int | None, step: int | None) -> SampleWindow | None:
    """The window that two parameters ask for; RequestError(INVALID) where it has too many samples."""
    if age is None or step is None:
        return None
    if age // step > SAMPLES_MAX:
        raise RequestError(
            INVALID, f"{name}_incr: {step} s over {name}_age={age} s are {age // step} samples, not up to {SAMPLES_MAX}"
        )
    return SampleWindow(age, step)


Asked = Annotated[Windows, Provided(windows_of)]


async def rates_for(request: Request) -> RateSamples:
    """The samples of the broker that answers."""
    rates = request.app.state.rates
    assert isinstance(rates, RateSamples)
    return rates


Sampled = Annotated[RateSamples, Provided(rates_for)]
