"""The build: what a change of one module compiles again, and what not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools.native.compiler import CompileFailed, Compiler, CompilerMissing
from tools.native.objects import Step, Store, key_of, make_all
from tools.native.progress import Progress
from tools.native.sources import Header, fill_literals, own_literals, own_numbers
from tools.requirements import requirements

ROOT = Path(__file__).parent.parent.parent.parent
HEADERS = ("__native_forebay.h", "__native_internal_forebay.h")
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler: only the interpreted build is possible"
)
MYPYC = """
import sys
from mypyc.build import mypycify
mypycify(sys.argv[2:], group_name="forebay", multi_file=True, target_dir=sys.argv[1])
"""
MODULES = {
    "first": 'def shout(text: str) -> str:\n    return text + "!"\n',
    "second": (
        "from first import shout\n\nclass Point:\n    def __init__(self, x: int) -> None:\n        self.x = x\n\n"
        "    def place(self) -> tuple[int, str]:\n        return self.x, shout('here')\n"
    ),
    "third": "from second import Point\n\ndef name(point: Point) -> str:\n    return 'at ' + str(point.x)\n",
}


def written_c(folder: Path, modules: dict[str, str]) -> dict[str, str]:
    """What the key of each module's object is made from: its C, and its part of the headers."""
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    paths = [f"{name}.py" for name in modules]
    done = subprocess.run(
        [sys.executable, "-c", MYPYC, "out", *paths], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = folder / "out"
    header = Header([(out / name).read_text(encoding="utf-8") for name in HEADERS])
    found = {}
    for name in modules:
        code, _ = own_literals(own_numbers((out / f"__native_{name}.c").read_text(encoding="utf-8")), 1)
        found[name] = code + header.part(code)
    return found


def changed(tmp_path: Path, name: str, old: str, new: str) -> set[str]:
    """Modules whose objects do not fit any more when `old` becomes `new` in the module."""
    pytest.importorskip("mypyc", reason="mypyc is in the environment of the compiled build")
    before = written_c(tmp_path / "before", MODULES)
    assert old in MODULES[name]
    after = written_c(tmp_path / "after", {**MODULES, name: MODULES[name].replace(old, new)})
    return {each for each in MODULES if before[each] != after[each]}


def test_a_new_literal_and_a_new_branch_change_their_own_module_only(tmp_path: Path) -> None:
    new = 'if len(text) > 17:\n        return "aaa" + text[1:]\n    return text + "!?"'
    assert changed(tmp_path, "first", 'return text + "!"', new) == {"first"}


def test_a_new_attribute_changes_the_modules_that_know_the_class(tmp_path: Path) -> None:
    assert changed(tmp_path, "second", "self.x = x\n", "self.w = 1\n        self.x = x\n") == {"second", "third"}


def test_each_file_has_its_own_literals_in_the_order_of_their_use() -> None:
    code = '#include "a.h"\nint f(void) { return g(CPyStatics[29], CPyStatics[3], CPyStatics[29]); }\n'
    changed, places = own_literals(code, 7)
    assert places == [29, 3]
    assert "g(CPyLocal[0], CPyLocal[1], CPyLocal[0])" in changed
    shared = (
        "int CPyGlobalsInit(void)\n{\n    if (CPyStatics_Initialize(CPyStatics) < 0) {\n        return -1;\n    }\n}\n"
    )
    filled = fill_literals(shared, {7: places})
    assert filled.index("return -1") < filled.index("CPyFill_7(CPyStatics, CPyPlaces_7);")
    assert "static const int CPyPlaces_7[] = {29, 3};" in filled
    assert own_literals("int x;\n", 7) == ("int x;\n", [])


def test_c_that_is_not_as_expected_is_refused_rather_than_miscompiled() -> None:
    with pytest.raises(ValueError, match="does not begin with its includes"):
        own_literals("int f(void) { return CPyStatics[1]; }", 1)
    with pytest.raises(ValueError, match="does not fill CPyStatics"):
        fill_literals("int main(void) {}", {1: [2]})
    with pytest.raises(ValueError, match="without an end"):
        Header(["extern int x\n"])


def test_a_header_gives_what_a_file_names_and_what_that_names() -> None:
    text = (
        "#include <Python.h>\ntypedef struct {\n    Other *first;\n} Thing;\n"
        "typedef struct {\n    int x;\n} Other;\nextern Thing *make(int a);\nextern int unused;\n"
    )
    header = Header([text])
    part = header.part("make(1)")
    assert "Thing" in part and "} Other;" in part and "#include <Python.h>" in part
    assert "unused" not in part


@needs_compiler
def test_objects_are_kept_by_what_they_are_made_from(tmp_path: Path) -> None:
    compiler, store = Compiler([]), Store(tmp_path / "kept")
    source = tmp_path / "x.c"

    def make(text: str, *flags: str) -> int:
        source.write_text(text, encoding="utf-8")
        step = Step(source, tmp_path / "x.o", text, ["-c", *flags])
        step.made.unlink(missing_ok=True)
        made = make_all("compiling", compiler, store, [step])
        assert step.made.exists()
        return made

    assert [make("int x;"), make("int x;"), make("int y;"), make("int x;"), make("int x;", "-O1")] == [1, 0, 1, 0, 1]
    step = Step(source, tmp_path / "x.o", "int x;", [])
    assert key_of(compiler, step, "librt 1") != key_of(compiler, step, "librt 2")


@needs_compiler
def test_what_the_compiler_refuses_is_told_in_its_words_and_not_kept(tmp_path: Path) -> None:
    compiler, store = Compiler([]), Store(tmp_path / "kept")
    source = tmp_path / "x.c"
    source.write_text("int x = ;\n", encoding="utf-8")
    with pytest.raises(CompileFailed, match="expected expression"):
        make_all("compiling", compiler, store, [Step(source, tmp_path / "x.o", "x", ["-c"])])
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_missing_compiler_and_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="CC names: 'no-such-compiler' does not run"):
        Compiler([])
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CompilerMissing, match=r"none of .*cc, .*clang runs\.  apt-get install gcc libc6-dev"):
        Compiler([])


@needs_compiler
def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: f"/nowhere/{name}")
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
    with pytest.raises(CompilerMissing, match=rf"/nowhere/include/Python\.h\.  apt-get install {package}"):
        Compiler([])
    monkeypatch.setattr("os.environ", {"PATH": "/nowhere"})
    with pytest.raises(CompilerMissing, match=rf"apt-get install gcc libc6-dev {package}"):
        Compiler([])
    monkeypatch.undo()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: f"/nowhere/{name}")
    monkeypatch.setenv("CFLAGS", "-nostdinc")
    with pytest.raises(CompilerMissing, match=r"does not find stdlib\.h\.  apt-get install libc6-dev"):
        Compiler([])


@needs_compiler
def test_objects_of_another_python_or_compiler_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler([])
    source = tmp_path / "x.c"
    source.write_text("int x;", encoding="utf-8")
    step = Step(source, tmp_path / "x.o", "int x;", ["-c"])
    key = key_of(compiler, step, "")
    assert key == key_of(compiler, step, "")
    monkeypatch.setattr(sys, "version", f"{sys.version} of somebody else")
    other = key_of(compiler, step, "")
    compiler.version += " of tomorrow"
    assert len({key, other, key_of(compiler, step, "")}) == 3


def test_progress_says_what_is_made_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("compiling", 2, 30) as progress:
        progress.done(10)
        assert re.fullmatch(r"compiling: 1 of 2 files, \d+ s, about \d+ s left", progress.text())
        progress.done(20)
    assert re.fullmatch(r"mypyc: \d+ s", Progress("mypyc").text())
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("  compiling: 0 of 2 files, ") and last.startswith("  compiling: 2 of 2 files, ")


def test_progress_moves_in_one_line_of_a_terminal() -> None:
    master, terminal = os.openpty()
    code = "from tools.native.progress import Progress\nwith Progress('linking', 1, 1) as made:\n    made.done(1)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, stderr=terminal, check=True)
    os.close(terminal)
    shown = os.read(master, 10_000).decode()
    os.close(master)
    assert shown.startswith("\r  linking: 0 of 1 files, 0 s") and shown.count("\n") == 1
    assert "\r  linking: 1 of 1 files, " in shown


def test_requirements_of_extras_are_those_of_the_extras_they_name() -> None:
    pyproject = {
        "build-system": {"requires": ["setuptools>=77"]},
        "dependency-groups": {"compile": ["mypy"], "wheel": ["auditwheel"]},
        "project": {"dependencies": ["a"], "optional-dependencies": {"x": ["b"], "y": ["forebay[x]", "c"]}},
    }
    assert requirements(pyproject, "") == ["a"]
    assert requirements(pyproject, "[y]") == ["a", "b", "c"]
    assert requirements(pyproject, "pure-build") == ["setuptools>=77"]
    assert requirements(pyproject, "build") == ["setuptools>=77", "mypy"]
    assert requirements(pyproject, "wheel") == ["setuptools>=77", "mypy", "auditwheel"]
