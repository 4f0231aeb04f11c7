"""`forebay completion`: prints the script by which a shell completes forebay's commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from forebay.core.errors import OptionError

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
    """Print the completion script of a shell; `forebay --install-completion` installs it.

    Example: forebay completion bash > /etc/bash_completion.d/forebay
    """
    if shell not in SCRIPTS:
        raise OptionError(f"SHELL: {shell!r} is none of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell])
