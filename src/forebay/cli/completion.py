"""`forebay completion`, and what completes names that only the broker knows."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from forebay.cli.access import SERVER, USER
from forebay.client.control import ControlClient
from forebay.core.errors import ForebayError, OptionError

WAIT_S: Final = 1.0  # nobody waits longer for the names of queues
BASH: Final = """\
_forebay_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _FOREBAY_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _forebay_completion forebay"""
ZSH: Final = """\
#compdef forebay
_forebay_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _FOREBAY_COMPLETE=complete_zsh forebay)
}

compdef _forebay_completion forebay"""
FISH_ENV: Final = "env _FOREBAY_COMPLETE=complete_fish _TYPER_COMPLETE_ARGS=(commandline -cp)"
FISH: Final = (
    "complete --command forebay --no-files "
    f'--arguments "({FISH_ENV} _TYPER_COMPLETE_FISH_ACTION=get-args forebay)" '
    f'--condition "{FISH_ENV} _TYPER_COMPLETE_FISH_ACTION=is-args forebay"'
)
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print what has a shell complete commands, options and names of queues; `--install-completion` sets it up.

    Example: forebay completion bash > /etc/bash_completion.d/forebay
    """
    if shell not in SCRIPTS:
        raise OptionError(f"SHELL: {shell!r} is none of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell])


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Queues whose names begin so; none where no broker answers at once, or a password would have to be typed."""
    given = context.params
    user = given.get("user") or USER
    password = given.get("password") or (USER if user == USER else "")
    try:
        with ControlClient.connect(given.get("server") or SERVER, user, password, WAIT_S) as client:
            answer = client.run("queue.list", vhost=given.get("vhost") or "/", limit=1000)
    except ForebayError:
        return []
    items = answer["items"]
    assert isinstance(items, list)
    return [each["queue"] for each in items if each["queue"].startswith(incomplete)]
