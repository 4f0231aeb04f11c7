"""Rules of the page's files: how large they are, where they lead, and that the types they state hold."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.interop.npm import installed

UI = Path(__file__).parent.parent.parent / "src" / "forebay" / "admin" / "ui"
OCTETS_MAX = 300_000
LINES_MAX = 600
CHART_LINES_MAX = 250
TYPESCRIPT = "5.9.3"
CHECKS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "skipLibCheck": True,  # the types of the browser are not ours to check
    "types": [],
    "strict": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
    "lib": ["es2023", "dom", "dom.iterable"],
}


def test_files_are_few_small_and_lead_nowhere_else() -> None:
    files = [path for path in UI.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < OCTETS_MAX
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, path
        assert len(text.splitlines()) <= LINES_MAX, path
        assert "innerHTML" not in text and "insertAdjacent" not in text and "eval(" not in text, path
    assert len((UI / "js" / "chart.js").read_text(encoding="utf-8").splitlines()) < CHART_LINES_MAX


def test_types_of_scripts_hold(tmp_path: Path) -> None:
    """TypeScript checks what the comments state, as strictly as it can; nothing is made of it."""
    package = installed("typescript", TYPESCRIPT) / "node_modules" / "typescript"
    project = tmp_path / "tsconfig.json"
    project.write_text(json.dumps({"compilerOptions": CHECKS, "include": [f"{UI}/js/**/*.js"]}), encoding="utf-8")
    command = ["node", str(package / "bin" / "tsc"), "--project", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
