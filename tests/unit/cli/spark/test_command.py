"""`forebay spark` before a session is started."""

from __future__ import annotations

import os
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


def test_mistakes_are_named_before_spark_is_started(broker: BrokerProcess, tmp_path: Path) -> None:
    forebay = Forebay(broker)
    view = ("spark", "view", "SELECT 1", "--queue", "f", "--into", "v", "--checkpoint", str(tmp_path))
    assert forebay.fails(2, *view, "--conf", "x") == "--conf: 'x' is not NAME=VALUE"
    assert forebay.fails(2, *view, "--option", "x") == "--option: 'x' is not NAME=VALUE"
    assert forebay.fails(2, *view, "--watermark", "g=1 second").startswith("--watermark: 'g=1 second': no table 'g'")
    # Where PySpark is not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
    )
    forebay.environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert forebay.fails(2, *view) == "forebay spark needs the package pyspark: pip install 'forebay[spark]'"


def test_a_project_of_pipelines_is_made(broker: BrokerProcess, tmp_path: Path) -> None:
    forebay = Forebay(broker)
    made = forebay("spark", "init", str(tmp_path / "p"), "--queue", "flights").splitlines()
    assert str(tmp_path / "p" / "spark-pipeline.yml") in made
    assert all(Path(path).is_file() for path in made)
    assert "is not an empty folder" in forebay.fails(2, "spark", "init", str(tmp_path / "p"), "--queue", "flights")
