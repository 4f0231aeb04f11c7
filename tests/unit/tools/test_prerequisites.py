"""What make.sh finds out about a machine, and which tests it leaves out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import FENCE, PAGES
from tools.left_out import EXAMPLES, NEEDED_BY, options, told

ROOT = Path(__file__).parent.parent.parent.parent
# How a test's code and a page's examples start a program of the machine.
STARTED_BY = {
    "compiler": (r'\["cc", "|get\("CC"\), "cc"', r"\bcc\b|\bgcc\b"),
    "mosquitto": (r'"mosquitto_(pub|sub)"', r"\bmosquitto_(pub|sub)\b"),
    "librabbitmq": (
        r'"amqp-(get|publish)", "|"-lrabbitmq"',
        r"\bamqp-(get|publish|consume|declare-queue|delete-queue) ",
    ),
    "libcoap": (r'"coap-client-notls"', r"\bcoap-client-notls\b"),
    "curl": (r'\["curl", ', r"\bcurl\b"),
    "node": (r'which\("(node|npm)"\)|\["node", ', r"\b(node|npm|npx) "),
    "chromium": (r'which\("chromium"\)', r"\bchromium\b"),
    "rabbitmqadmin": (r"import rabbitmqadmin$", r"\brabbitmqadmin\b"),
    "prometheus": (r'program\("(prometheus|promtool)"\)', r"\bpromtool\b"),
    "etcd": (r'which\("etcd(ctl)?"\)', r"\betcd(ctl)? "),
    "namespaces": (r'"unshare", "', r"\bunshare "),
}
PAGES_RUN = "tests/docs/test_examples.py"  # the pages that it runs are named one by one
BASICS = ("bash", "cat", "cut", "dirname", "env", "grep", "head", "id", "ls", "mkdir", "mktemp", "rm", "sort", "sed")


def bash(code: str, path: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run shell code after make.sh's functions are read."""
    read = ". tools/prerequisites.sh; . tools/install.sh; . tools/wheels.sh"
    environment = {**os.environ, "PATH": path or os.environ["PATH"], **environment}
    command = [str(shutil.which("bash")), "-euc", f"{read}\n{code}"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with what every machine has, and this Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in BASICS:
        (folder / name).symlink_to(str(shutil.which(name)))
    (folder / "python3").symlink_to(sys.executable)
    return str(folder)


def importers(names: set[str]) -> set[str]:
    """Test files that import one of these modules of the tests; those files are modules, too."""
    found = set(names)
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in names:
            folder, _, module = name.removesuffix(".py").replace("/", ".").rpartition(".")
            if re.search(rf"from {folder} import .*\b{module}\b|from {folder}\.{module} import", text):
                found.add(path.relative_to(ROOT).as_posix())
    return found if found == names else importers(found)


@pytest.mark.parametrize("program", NEEDED_BY)
def test_every_test_that_starts_a_program_is_known_for_it(program: str) -> None:
    code, example = (re.compile(pattern, re.MULTILINE) for pattern in STARTED_BY[program])
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and code.search(path.read_text(encoding="utf-8"))
    }
    files = {name for name in importers(files) if Path(name).name.startswith("test_")}
    files -= {PAGES_RUN, Path(__file__).relative_to(ROOT).as_posix()}
    pages = {
        page.relative_to(ROOT).as_posix()
        for page in PAGES
        if any(
            (kind == "bash" and example.search(text)) or (kind == "javascript" and program == "node")
            for kind, _, text in FENCE.findall(page.read_text())
        )
    }
    assert {each.partition("::")[0] for each in NEEDED_BY[program]} == files | pages


def test_the_tests_that_are_left_out_are_there() -> None:
    for each in (each for tests in NEEDED_BY.values() for each in tests):
        path, _, name = each.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") if name else (ROOT / path).exists()


def test_a_file_is_ignored_and_a_test_deselected_by_name() -> None:
    assert options([]) == []
    left_out = options(["node", "curl"])
    assert "--ignore=tests/interop/test_mqttjs.py" in left_out
    assert f"--deselect={EXAMPLES}[docs/reference/http-api.md]" in left_out
    assert "--deselect=tests/ui/test_scripts.py::test_types_of_scripts_hold" in left_out
    assert told(["compiler", "rabbitmqadmin"])[0] == "  the compiled build"


def test_a_machine_without_a_compiler_is_told_what_to_install(bare: str) -> None:
    code = 'try_install() { :; }; find_python; check_venv; check_compiler; echo "$missing|$lacking|$lacking_told"'
    done = bash(code, bare)
    assert done.stderr == ""
    missing, lacking, text = done.stdout.strip().split("|")
    assert (missing, lacking.split()) == ("", ["compiler"])
    assert "a C compiler: none of" in text and "apt-get install gcc libc6-dev" in text
    assert bash(f"lacking=; {code.replace('check_compiler', ':')}", bare).stdout == "||\n"


def test_a_target_that_needs_the_compiled_build_stops_without_a_compiler(bare: str) -> None:
    code = 'try_install() { :; }; find_python; check_compiler; stop_without_compiler "A wheel"; echo not here'
    done = bash(code, bare)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("A wheel is for the compiled build, which needs something that is not here:")


def test_a_program_that_is_not_there_is_lacking_and_what_it_is_for_is_left_out(bare: str) -> None:
    programs = NEEDED_BY.keys() - {"compiler"}
    checks = "; ".join(f"check_{name}" for name in programs)
    code = f'try_install() {{ :; }}; find_python; {checks}; echo $lacking; "$python" tools/left_out.py --tell $lacking'
    done = bash(code, bare, XDG_CACHE_HOME=bare)
    words, *tests = done.stdout.splitlines()
    assert set(words.split()) == programs
    assert [each.strip() for each in tests] == [each.strip() for each in told(words.split())]


@pytest.mark.parametrize(("version", "fits"), [("3.10", False), ("3.11", True), ("3.14", True), ("3.20", True)])
def test_a_python_is_taken_from_3_11_on_without_an_upper_bound(tmp_path: Path, version: str, fits: bool) -> None:
    stub = tmp_path / "python"
    kind = "type('V', (tuple,), dict(releaselevel='final'))"
    facts = f"import sys; sys.version_info = {kind}(({version.replace('.', ', ')}, 0))"
    stub.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{facts}\n$2"\n')
    stub.chmod(0o755)
    done = bash(f"python_fits {stub}")
    assert (done.returncode == 0, done.stdout) == (fits, f"{version}\n" if fits else "")


def test_no_python_that_fits_is_told_with_the_one_that_was_found() -> None:
    done = bash("find_python; stop_if_missing", FOREBAY_PYTHON="/nowhere/python")
    assert done.returncode == 1
    assert "Python 3.11 or newer (found: " in done.stderr and "set FOREBAY_PYTHON" in done.stderr


@pytest.mark.parametrize(
    ("modules", "made"),
    [("ensurepip venv", "yes"), ("venv pip", "yes"), ("venv", "no"), ("venv wheel", "yes"), ("pip", "no")],
)
def test_an_environment_is_made_with_any_pip_there_is(modules: str, made: str) -> None:
    """Debian's Python has venv, and needs another package for ensurepip."""
    code = (
        f'has_module() {{ case " {modules} " in *" $1 "*) ;; *) return 1 ;; esac; }}; try_install() {{ :; }}\n'
        f'pip_wheel() {{ has_module wheel; }}; fetch_file() {{ echo "fetched $1"; }}\n'
        'find_python; check_venv; [ -z "$missing" ] && echo yes || echo no'
    )
    told = bash(code).stdout.splitlines()
    assert told[-1] == made
    assert told[:-1] == ([] if made == "yes" else ["fetched python3-pip-whl"])
