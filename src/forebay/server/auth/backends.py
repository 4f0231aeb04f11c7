"""The backends of logins that the options name."""

from __future__ import annotations

from forebay.core.option_names import HTTP, OAUTH
from forebay.core.options import Options
from forebay.directory.logins.login import Backend


def make_backends(options: Options) -> list[Backend | None]:
    """Return the login backends in the order of `auth_backends`.

    None stands for the broker's own users. Raises OptionError if a backend lacks an option.
    """
    made: list[Backend | None] = []
    for name in options.auth_backends:
        if name == OAUTH:
            from forebay.server.auth.oauth import OAuth  # noqa: PLC0415  what it needs takes long to load

            made.append(OAuth(options))
        elif name == HTTP:
            from forebay.server.auth.callout import Callout  # noqa: PLC0415  the same

            made.append(Callout(options))
        else:
            made.append(None)
    return made
