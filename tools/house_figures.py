"""Print figures of the source's structure, of this tree or of another: `tools/house_figures.py [ROOT]`.

arrows up           imports inside `broker` that run against the order of its folders, and how many folders they join
formats named       modules outside `wire`, `session` and `message` that name the format of a message
names of a vhost    what sessions use of one: its own methods, and different paths into its parts such as `vhost.x.y`
contract            methods that a session may call of a vhost, and its parts: interfaces, and whole classes
largest classes     classes with the most attributes of their own
lines               of the source, and modules
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# From the top, as pyproject.toml has it: what stands lower may not import what stands higher. The last is of old trees.
ORDER = (
    *("redrive", "policy_changes", "quota", "vhosts", "session_rights", "vhost", "upkeep", "clients", "consuming"),
    *("dead_letter", "publish", "catalog", "turn", "shared", "mqtt", "limits", "auth"),
)
FORMATS = {"AMQP091", "AMQP10", "MQTT", "FORMAT_MASK"}
PATH = re.compile(r"(?<!request\.)\bvhost\.([a-z_]+(?:\.[a-z_]+)*)")
METHOD = re.compile(r"^    def ([a-z][a-z_]*)\(", re.MULTILINE)
PART = re.compile(r"^    ([a-z_]+): ([A-Z][A-Za-z]+)$", re.MULTILINE)
LARGEST = 10


def modules(source: Path) -> Iterator[tuple[str, str]]:
    """Return the name of each module below `forebay`, and its text."""
    for path in sorted(source.rglob("*.py")):
        yield ".".join(path.relative_to(source).with_suffix("").parts), path.read_text(encoding="utf-8")


def room(module: str) -> str:
    """Return the folder of a module of `broker`, or the module's own name if it is in none."""
    return module.split(".")[1]


def arrows_up(texts: dict[str, str]) -> list[str]:
    """Return imports inside `broker` from a lower folder to a higher one, as "lower -> higher"."""
    found: list[str] = []
    for module, text in texts.items():
        if not module.startswith("broker."):
            continue
        for target in re.findall(r"^from forebay\.(broker\.[a-z_.0-9]+) import", text, re.MULTILINE):
            lower, higher = room(module), room(target)
            if lower in ORDER and higher in ORDER and ORDER.index(lower) > ORDER.index(higher):
                found.append(f"{lower} -> {higher}")
    return found


def names_format(text: str) -> bool:
    """Return whether a module imports the number of a format, or the mask that finds it in an octet."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "forebay.core.message"
        and FORMATS & {each.name for each in node.names}
        for node in ast.walk(ast.parse(text))
    )


def attributes(texts: dict[str, str]) -> list[tuple[int, str]]:
    """Return how many attributes each class sets on itself, the most first."""
    found: list[tuple[int, str]] = []
    for module, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                stored = (
                    each.attr
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
                    if isinstance(each.value, ast.Name) and each.value.id == "self"
                )
                found.append((len(set(stored)), f"{module}.{node.name}"))
    return sorted(found, reverse=True)


def names_of_vhost(texts: dict[str, str]) -> tuple[set[str], set[str]]:
    """Return what sessions use of a vhost: its own methods and its name, and the paths into its parts."""
    own = {"name", *METHOD.findall(texts.get("broker.contract", texts["broker.vhost"]))}  # old trees have no contract
    found: set[str] = set()
    for module, text in texts.items():
        if module.startswith("session."):
            found.update(PATH.findall(text))
    methods = {each.split(".")[0] for each in found} & own
    return methods, {each for each in found if each.split(".")[0] not in own}


def interfaces(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return the parts of the contract that are abstract classes, by attribute, with their methods."""
    found = {
        node.name: [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
        for module, text in texts.items()
        if module.startswith("broker.") and module.endswith("_contract")
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }
    parts = PART.findall(texts.get("broker.contract", ""))
    return {name: found[type] for name, type in parts if type in found}


def main() -> None:
    """Print all figures."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    texts = dict(modules(root / "src" / "forebay"))
    up = arrows_up(texts)
    print(f"arrows up inside broker: {len(up)}, between {len(set(up))} pairs of folders: {', '.join(sorted(set(up)))}")
    above = ("wire.", "session.", "message.")
    naming = [module for module, text in texts.items() if not module.startswith(above) and names_format(text)]
    print(f"modules outside wire, session and message that name formats: {len(naming)}: {', '.join(naming)}")
    methods, paths = names_of_vhost(texts)
    print(f"methods of a vhost that sessions call: {len(methods)}, paths into its parts that they use: {len(paths)}")
    contract = texts.get("broker.contract", "")
    found = interfaces(texts)
    whole = [name for name, type in PART.findall(contract) if name not in found and type != "Final"]
    print(f"methods of the contract of a vhost: {len(METHOD.findall(contract))}")
    print(f"parts of it that are interfaces: {', '.join(f'{name} ({len(each)})' for name, each in found.items())}")
    print(f"parts of it that are whole classes: {', '.join(whole)}")
    for count, name in attributes(texts)[:LARGEST]:
        print(f"attributes of {name}: {count}")
    lines = sum(text.count("\n") for text in texts.values())
    print(f"lines: {lines}, modules: {len(texts)}")


if __name__ == "__main__":
    main()
