"""What others install: the wheel by pip, pipx and uv where no compiler is, the sdist with all that its pages name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from forebay.log import block

Environment = dict[str, object]
ROOT = Path(__file__).parent.parent.parent
FUNCTIONS = ". tools/prerequisites.sh; . tools/install.sh; . tools/wheels.sh; find_python; check_venv"
RUN_S_MAX = 500  # guards against a hang: pip installs from PyPI, on a machine that may be busy
pytestmark = pytest.mark.timeout(2 * RUN_S_MAX)
# The Python that this environment was made from.
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"


def done(
    command: list[object], environment: Environment | None = None, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """A command that has run."""
    own = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "FOREBAY_PURE"}}
    own["FOREBAY_PYTHON"] = str(PYTHON)
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={**own, **{name: str(value) for name, value in (environment or {}).items()}},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


def run(command: list[object], environment: Environment | None = None, folder: Path = ROOT) -> str:
    """What a command prints, which must succeed."""
    ended = done(command, environment, folder)
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def make(code: str) -> str:
    """What shell functions of `make` print at last."""
    return run(["bash", "-euc", f"{FUNCTIONS} >&2; {code}"]).strip()


def compiled() -> bool:
    """Whether the tests run on the compiled build."""
    return not str(block.__file__).endswith(".py")


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel that `make test` has built and installed; of sources that run as they are, one that is not compiled."""
    return ROOT / make(f'make_wheel {0 if compiled() else 1} >&2; ls "$wheel_folder"/forebay-*.whl')


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    archive = Path(make(f'make_build_env pure-build >&2; dist_sdist {folder} >&2; echo "$sdist"'))
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture
def bare(tmp_path: Path) -> Environment:
    """Environment of a process that finds no compiler: nothing is on its PATH but a Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(PYTHON)
    return {"PATH": folder, "CC": "no-compiler"}


@pytest.fixture(scope="module")
def installers() -> Path:
    """Folder of the commands pipx and uv."""
    make("make_venv build/installers; require build/installers installers")
    return ROOT / "build" / "installers" / "bin"


def try_out(python: Path, bare: Environment) -> None:
    """Start a broker of this environment, send messages through it, stop it."""
    told = run([python, ROOT / "tools" / "smoke.py"], bare)
    assert f"({'compiled' if compiled() else 'interpreted'}," in told
    assert "starts, takes and gives messages over AMQP and MQTT, stops" in told


def test_pip_installs_the_wheel_where_no_compiler_is(wheel: Path, bare: Environment, tmp_path: Path) -> None:
    run([PYTHON, "-m", "venv", tmp_path / "made"])
    python = tmp_path / "made" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", wheel], bare)
    try_out(python, bare)


def test_pipx_installs_the_wheel_where_no_compiler_is(
    wheel: Path, bare: Environment, installers: Path, tmp_path: Path
) -> None:
    places = {"PIPX_HOME": tmp_path / "pipx", "PIPX_BIN_DIR": tmp_path / "commands", "PIPX_MAN_DIR": tmp_path / "man"}
    run([installers / "pipx", "install", "--python", PYTHON, wheel], {**bare, **places})
    assert "forebay" in run([tmp_path / "commands" / "forebay", "--version"], bare)
    try_out(tmp_path / "pipx" / "venvs" / "forebay" / "bin" / "python", bare)


def test_uv_installs_the_wheel_where_no_compiler_is(
    wheel: Path, bare: Environment, installers: Path, tmp_path: Path
) -> None:
    places = {"UV_TOOL_DIR": tmp_path / "tools", "UV_TOOL_BIN_DIR": tmp_path / "commands", "UV_LINK_MODE": "copy"}
    run([installers / "uv", "tool", "install", "--python", PYTHON, wheel], {**bare, **places})
    assert "forebay" in run([tmp_path / "commands" / "forebay", "--version"], bare)
    try_out(tmp_path / "tools" / "forebay" / "bin" / "python", bare)


def test_pip_builds_the_sdist_without_a_compiler_when_asked_to(
    sources: Path, bare: Environment, tmp_path: Path
) -> None:
    run([PYTHON, "-m", "venv", tmp_path / "made"])
    python = tmp_path / "made" / "bin" / "python"
    archive = sources.parent / f"{sources.name}.tar.gz"
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", archive], {**bare, "FOREBAY_PURE": 1})
    find = "from importlib.util import find_spec; print(find_spec('forebay.log.block').origin)"
    assert run([python, "-c", find], folder=tmp_path).endswith("site-packages/forebay/log/block.py\n")


def test_pip_says_at_once_what_a_build_lacks(sources: Path, bare: Environment) -> None:
    """Before mypy is fetched or runs, in a few lines, and without a traceback."""
    python = ROOT / make('make_build_env pure-build >&2; echo "$build_env"') / "bin" / "python"
    ended = done(
        [python, "-c", "from tools.native import backend; backend.get_requires_for_build_wheel()"], bare, sources
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[1] == "  the C compiler that CC names: 'no-compiler' does not run"
    assert "FOREBAY_PURE=1 pip install" in ended.stderr and len(ended.stderr.splitlines()) < 8
    asked = "from tools.native import backend; print(backend.get_requires_for_build_wheel())"
    assert run([python, "-c", asked], {**bare, "FOREBAY_PURE": 1}, sources) == "[]\n"


def test_an_sdist_has_what_its_pages_link_and_its_makefile_runs(sources: Path) -> None:
    broken = []
    for page in sources.rglob("*.md"):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(sources)}: {target}")
    assert broken == []
    assert "make wheel" in run(["make", "help"], folder=sources)
    assert {path.name for path in (sources / "tools").iterdir()} == {
        path.name for path in (ROOT / "tools").iterdir() if path.name != "__pycache__"
    }
    for name in ("tests/conftest.py", "bench/run.py", "deploy/systemd/forebay.service", "examples/flights/README.md"):
        assert (sources / name).exists(), name
    with tarfile.open(sources.parent / f"{sources.name}.tar.gz") as archive:
        assert [name for name in archive.getnames() if name.endswith((".pyc", ".so"))] == []
