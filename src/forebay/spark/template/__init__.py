"""The template of a Declarative Pipelines project over a queue: the files in this folder, and the values filled in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from forebay.core.errors import OptionError

RUN: Final = "run.sh"
FILES: Final = ("README.md", RUN, "spark-pipeline.yml", "transformations/messages.py", "transformations/by_minute.sql")


def init(
    folder: str, servers: str, queue: str, into: str = "results", user: str = "guest", vhost: str = "/"
) -> list[str]:
    """Create a project in a new or empty folder, and return the paths of its files.

    into    the queue that results are published to
    raises  OptionError naming the argument
    """
    root = Path(folder).absolute()
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise OptionError(f"folder: {folder} is not an empty folder")
    for name, value in {"servers": servers, "queue": queue, "into": into, "user": user, "vhost": vhost}.items():
        if not value:
            raise OptionError(f"{name}: must not be empty")
    values = {
        "name": root.name,
        "servers": servers,
        "vhost": vhost,
        "user": user,
        "queue": queue,
        "into": into,
        "storage": (root / "storage").as_uri(),
        "partitions": str(len(os.sched_getaffinity(0))),
    }
    return fill(files(__name__), FILES, root, values)


def fill(source: Traversable, names: Sequence[str], root: Path, values: Mapping[str, str]) -> list[str]:
    """Write the files with the values in place of their names in braces, quoted in YAML files.

    Returns the files' paths.
    """
    made: list[str] = []
    for name in names:
        text = source.joinpath(name).read_text(encoding="utf-8")
        for value_name, value in values.items():
            shown = json.dumps(value) if name.endswith(".yml") else value
            text = text.replace("{{ " + value_name + " }}", shown)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
        made.append(str(path))
    return made
