"""What sessions use of a vhost: the names of its contract, and the paths into the parts that the contract has.

Types and import-linter hold that a session uses nothing else (broker/contract.py, pyproject.toml). Tested here is
that the contract stays short, that neither it nor a part that is an interface has a method that nobody needs, and that
what is used of a part that is a whole class does not grow unseen: a new path is a decision, to be made here and in
ADR 49.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.house_figures import METHOD, interfaces, modules, names_of_vhost

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "forebay"
# Of the contract, for the node: it speaks for the connection of a session.
OF_NODE: Final = {"touch", "pause", "fill"}
METHODS_MAX: Final = 26  # of the contract itself: what one protocol alone needs belongs into a part
READERS_OF_SHARED: Final = {"broker.vhost", "broker.vhosts", "node.logins"}

PATHS: Final = """
    budgets.filters.pace budgets.filters.pace.note budgets.publishes budgets.publishes.start_publish
    budgets.reading deduplication deduplication.remember delayed delayed.cancel delayed.has_places fanout
    fanout.crowding.look fanout.octets fanout.trie.spent fanout.wide.open fanout.wide.ticket memory.add
    memory.check sessions sessions.append_private sessions.end_turn sessions.keep sessions.log
    sessions.next_offset sessions.note_lost sessions.now_us sessions.operate sessions.pass_by
"""


def test_sessions_use_every_method_of_the_contract() -> None:
    texts = dict(modules(SOURCE))
    methods, _ = names_of_vhost(texts)
    own = METHOD.findall(texts["broker.contract"])
    assert sorted(methods - {"name"}) == sorted(set(own) - OF_NODE)
    assert len(own) <= METHODS_MAX


def test_sessions_use_every_method_of_an_interface() -> None:
    texts = dict(modules(SOURCE))
    text = "".join(text for module, text in texts.items() if module.startswith("session."))
    methods = {f"{part}.{method}" for part, found in interfaces(texts).items() for method in found}
    assert sorted(each for each in methods if f".{each.split('.')[1]}(" not in text) == []


def test_sessions_use_the_listed_paths_into_whole_classes_and_no_others() -> None:
    texts = dict(modules(SOURCE))
    _, paths = names_of_vhost(texts)
    of_classes = {path for path in paths if path.split(".")[0] not in interfaces(texts)}
    assert sorted(of_classes) == sorted(PATHS.split())


def test_constructors_alone_read_what_all_vhosts_share() -> None:
    """No object keeps the list of shared parts, but the list of vhosts that makes new ones with it."""
    texts = dict(modules(SOURCE))
    readers = {module for module, text in texts.items() if "from forebay.broker.shared.parts import" in text}
    assert readers == READERS_OF_SHARED
    keepers = {module for module, text in texts.items() if re.search(r"self\.\w+ = shared$", text, re.MULTILINE)}
    assert keepers == set()
