"""Operations on the broker's own configuration, and on what sends its events."""

from __future__ import annotations

from functools import partial

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.management.control import PAGE, Arguments, Control, operation, page


@operation("config.show", *PAGE)
def show_config(control: Control, given: Arguments) -> dict[str, object]:
    """Every option by its name: value, where it came from, and whether a reload can change it; no secrets."""
    configuration = control.configuration
    shown = [] if configuration is None else configuration.shown()
    return page(given, [partial(dict, each) for each in shown])


@operation("config.reload", changes=True)
def reload_config(control: Control, given: Arguments) -> dict[str, object]:
    """Read the configuration again, and put in force what can be changed while the broker runs.

    `applied` has the options that changed, with `old` and `new`; `restart` those that have to wait for one. Where
    anything is wrong nothing is changed.
    """
    if control.configuration is None:
        raise RequestError(NOT_FOUND, "config.reload: this broker has no configuration")
    return control.configuration.reload()


@operation("webhook.list", *PAGE)
def list_webhooks(control: Control, given: Arguments) -> dict[str, object]:
    """The webhooks: waiting, sent, failed and dropped events, and whether sending is stopped for now."""
    hooks = [] if control.webhooks is None else control.webhooks.listed()
    return page(given, [partial(dict, each) for each in hooks])
