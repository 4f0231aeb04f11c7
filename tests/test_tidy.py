"""Rules of the source that no other tool holds."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from forebay.cli.commands import WORDS
from forebay.core.option_table import option_fields
from forebay.core.options import Options
from setup import COMPILED, FAST, INTERPRETED, compiled_modules

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "forebay"
FUNCTION_LINES_MAX = 60
DISPATCHER_LINES_MAX = 120  # a function whose def line says `# tidy: dispatcher` and why
MODULE_LINES_MAX = 600
FOLDER_MODULES_MAX = 15
RELATIVE = re.compile(r"(How|Wh(at|atever|en|ere|ether|ich|o|oever|om|ose|y))\b")
INHERITANCE_MAX = 2  # classes of ours above one, errors aside
README_WORDS_MAX = 700
PAGE_WORDS_MAX = 1500  # outside of the reference

MODULES = sorted(SOURCE.rglob("*.py"))
PYTHON = sorted([*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py"), ROOT / "setup.py"])
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])
COMPILED_PATHS = [ROOT / name for name in compiled_modules(ROOT, COMPILED)]
BANNED_IMPORTS = {"contextlib", "dataclasses", "enum", "struct"}
BANNED_NAMES = {"IntEnum", "Protocol", "dataclass", "memoryview"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def dialect_errors(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each construct that the compiled dialect does not use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in BANNED_IMPORTS:
                    yield node.lineno, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            if node.module in BANNED_IMPORTS:
                yield node.lineno, f"from {node.module} import"
            for alias in node.names:
                if alias.name in BANNED_NAMES:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Name) and node.id in BANNED_NAMES:
            yield node.lineno, node.id
        elif isinstance(node, ast.Lambda | ast.GeneratorExp | ast.Yield | ast.YieldFrom | ast.Await):
            yield node.lineno, type(node).__name__
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.args.vararg is not None or node.args.kwarg is not None:
                yield node.lineno, f"*args or **kwargs of {node.name}"
            for inner in functions(node):
                if inner is not node:
                    yield inner.lineno, f"nested function {inner.name}"


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Dotted names that a file imports; `from a import b` counts as a and as a.b."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def test_functions_are_short() -> None:
    too_long = []
    for path in PYTHON:
        lines = text_of(path).splitlines()
        for function in functions(tree_of(path)):
            assert function.end_lineno is not None
            length = function.end_lineno - function.lineno + 1
            most = DISPATCHER_LINES_MAX if "# tidy: dispatcher, " in lines[function.lineno - 1] else FUNCTION_LINES_MAX
            if length > most:
                too_long.append(f"{relative(path)}:{function.lineno} {function.name}: {length} lines, at most {most}")
    assert not too_long, "\n".join(too_long)


def test_modules_are_short() -> None:
    lengths = {relative(path): len(text_of(path).splitlines()) for path in PYTHON}
    assert {path: length for path, length in lengths.items() if length > MODULE_LINES_MAX} == {}


def test_compiled_modules_keep_to_the_dialect() -> None:
    found = [
        f"{relative(path)}:{line} {what}" for path in COMPILED_PATHS for line, what in dialect_errors(tree_of(path))
    ]
    assert not found, "\n".join(found)


def test_the_dialect_check_sees_what_it_bans() -> None:
    text = """
from dataclasses import dataclass
import struct
def outer(*parts):
    def inner(): yield 1
    return memoryview(b""), lambda: 1, sum(x for x in parts)
"""
    found = {what for _, what in dialect_errors(ast.parse(text))}
    assert found == {
        "from dataclasses import",
        "dataclass",
        "import struct",
        "*args or **kwargs of outer",
        "nested function inner",
        "Yield",
        "memoryview",
        "Lambda",
        "GeneratorExp",
    }


def test_every_compiled_pattern_finds_a_module() -> None:
    assert set(compiled_modules(ROOT, FAST)) < set(compiled_modules(ROOT, COMPILED))
    assert [pattern for pattern in COMPILED + FAST if not list(SOURCE.glob(pattern))] == []
    assert [name for name in INTERPRETED if not (SOURCE / name).exists()] == []


def test_tests_wait_in_one_place() -> None:
    """For what they wait for: `tests/waiting.py`. A turn of an event loop is no time, a program has its own clock."""
    elsewhere = {ROOT / "tests" / "waiting.py", ROOT / "tests" / "spark" / "cluster" / "driver.py"}
    for path in sorted({*(ROOT / "tests").rglob("*.py")} - elsewhere):
        for number, line in enumerate(text_of(path).splitlines(), 1):
            assert not re.search(r"\bsleep\((?!0\))", line), f"{relative(path)}:{number} sleeps"


def test_a_todo_names_its_issue() -> None:
    pattern = re.compile(r"\b(TODO(?!\(#\d+\))|FIXME|XXX)\b")
    found = [relative(path) for path in PYTHON if path != Path(__file__) and pattern.search(text_of(path))]
    assert not found, "\n".join(found)


def test_every_module_is_imported_by_something() -> None:
    imported: set[str] = set()
    for path in PYTHON:
        own = {dotted(path)} if path in MODULES else set()
        imported |= imports_of(path) - own
    commands = {f"forebay.cli.{each.place.partition(':')[0]}" for each in WORDS.values()}
    entry = {"forebay.__main__", *commands}
    template = SOURCE / "spark" / "template"  # its files are copied into projects
    modules = {dotted(path) for path in MODULES if path.name != "__init__.py" and template not in path.parents}
    dead = sorted(modules - imported - entry)
    assert not dead, "\n".join(dead)


def test_every_package_is_placed_under_the_ban_on_outside_imports() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ban = next(
        each for each in config["tool"]["importlinter"]["contracts"] if "socket" in each.get("forbidden_modules", [])
    )
    above = {"admin", "cli", "client", "server", "spark"}
    below = {f"forebay.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")} - {f"forebay.{n}" for n in above}
    assert set(ban["source_modules"]) == below


def test_no_imports_go_round_in_a_circle() -> None:
    """Imports for types count, and those within a function: whoever reads one of the modules has to read all."""
    modules = {dotted(path).removesuffix(".__init__"): path for path in MODULES}
    imported = {name: (imports_of(path) & set(modules)) - {name} for name, path in modules.items()}
    # `from a import b` names the package, too, which is no arrow to what its `__init__` does not import.
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    left = {name: found - packages for name, found in imported.items()}
    while free := {name for name, found in left.items() if not found & set(left)}:
        left = {name: found for name, found in left.items() if name not in free}
    while outer := set(left) - {each for found in left.values() for each in found}:
        left = {name: found for name, found in left.items() if name not in outer}
    shown = [f"{name}: {', '.join(sorted(found & set(left)))}" for name, found in sorted(left.items())]
    assert not left, "\n".join(shown)


def test_a_folder_holds_few_modules() -> None:
    """Modules that belong together have a folder of their own, and no common beginning of its name."""
    folders: dict[str, int] = {}
    for path in MODULES:
        if path.name != "__init__.py":
            folder = path.parent.relative_to(SOURCE).as_posix()
            folders[folder] = folders.get(folder, 0) + 1
    too_full = [f"{folder}: {count} modules" for folder, count in folders.items() if count > FOLDER_MODULES_MAX]
    assert not too_full, "\n".join(too_full)


def classes() -> dict[str, list[tuple[Path, ast.ClassDef]]]:
    """The classes at the top of modules, by name."""
    found: dict[str, list[tuple[Path, ast.ClassDef]]] = {}
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((path, node))
    return found


def test_the_name_of_a_class_has_one_meaning() -> None:
    found = classes().items()
    twice = [f"{name}: {', '.join(relative(path) for path, _ in places)}" for name, places in found if len(places) > 1]
    assert not twice, "\n".join(twice)


def test_classes_are_made_of_parts_and_not_of_chains() -> None:
    found = {name: node for name, places in classes().items() for _, node in places}

    def ancestors(name: str) -> list[str]:
        """The longest line of bases, the nearest first."""
        node = found.get(name)
        bases = [] if node is None else [base.id for base in node.bases if isinstance(base, ast.Name)]
        lines = [[base, *ancestors(base)] for base in bases if base in found or base.endswith(("Error", "Exception"))]
        return max(lines, key=len, default=[])

    too_long = []
    for name in found:
        line = ancestors(name)
        if line and line[-1].endswith(("Error", "Exception")):
            continue
        if len(line) > INHERITANCE_MAX:
            too_long.append(f"{name}: {', '.join(line)}")
    assert not too_long, "\n".join(too_long)


def test_every_option_is_read_by_something() -> None:
    text = "\n".join(text_of(path) for path in MODULES if path.name != "options.py")
    unused = [name for name, _, _ in option_fields(Options) if not re.search(rf"\.{name}\b", text)]
    assert not unused, "\n".join(unused)


def test_public_names_have_docstrings() -> None:
    """Public are a module, its classes, and each function that another module imports."""
    imported = {name for path in MODULES for name in imports_of(path)}
    bare = []
    for path in MODULES:
        if path.name != "__init__.py" and not ast.get_docstring(tree_of(path)):
            bare.append(f"{relative(path)}: the module")
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                public = not node.name.startswith("_")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                public = f"{dotted(path)}.{node.name}" in imported
            else:
                continue
            if public and ast.get_docstring(node) is None:
                bare.append(f"{relative(path)}:{node.lineno} {node.name}")
    assert not bare, "\n".join(bare)


def test_docstrings_say_subject_and_verb() -> None:
    """None begins with a relative clause."""
    found = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if RELATIVE.match(text):
                    found.append(f"{relative(path)}: {text.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_files_that_pages_and_comments_name_are_there() -> None:
    """A module that moves takes with it what is said of it."""
    there = ["/" + relative(path) for path in [*PYTHON, *(ROOT / "bench").rglob("*.py")]]
    gone = [
        f"{relative(path)}: {name}"
        for path in [*MODULES, *PAGES]
        for name in re.findall(r"(?<![\w./-])[a-z_0-9]+(?:/[a-z_0-9]+)+\.py\b", text_of(path))
        if not any(each.endswith("/" + name) for each in there)
    ]
    assert not gone, "\n".join(gone)


def test_links_between_pages_resolve() -> None:
    broken = []
    for path in PAGES:
        text = re.sub(r"```.*?```", "", text_of(path), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            place, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", place):
                continue
            page = (path.parent / place).resolve() if place else path
            if not page.exists() or (anchor and page.suffix == ".md" and anchor not in anchors(page)):
                broken.append(f"{relative(path)}: {target}")
    assert not broken, "\n".join(broken)


@cache
def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page are linked."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= README_WORDS_MAX


def test_pages_that_are_read_through_are_short() -> None:
    groups = ("tutorials", "how-to", "concepts", "design", "adr")
    pages = [page for group in groups for page in sorted((ROOT / "docs" / group).glob("*.md"))]
    assert {page.parent.name for page in pages} == set(groups)
    pages += (ROOT / "docs").glob("*.md")
    words = {relative(page): len(text_of(page).split()) for page in pages}
    assert {page: count for page, count in words.items() if count > PAGE_WORDS_MAX} == {}


def test_every_concept_has_a_picture() -> None:
    picture = re.compile(r"!\[[^\]]+\]\(\.\./images/([\w-]+\.svg)\)")
    for page in sorted((ROOT / "docs" / "concepts").glob("*.md")):
        found = picture.findall(text_of(page))
        assert len(found) == 1, f"{relative(page)} has {len(found)} pictures"
        assert (ROOT / "docs" / "images" / found[0]).exists()


def test_a_page_says_first_what_it_is_for() -> None:
    """The first thing under the title is a sentence: no table, list, program or heading."""
    without = []
    groups = ("tutorials", "how-to", "concepts", "reference", "design")
    for page in [page for group in groups for page in sorted((ROOT / "docs" / group).glob("*.md"))]:
        lines = [line for line in text_of(page).splitlines() if line and not line.startswith("<!--")]
        if not lines[0].startswith("# ") or not re.match(r"(?!```)[A-Za-z`\[]", lines[1]):
            without.append(relative(page))
    assert without == []
