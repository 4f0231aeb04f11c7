"""The files of a project of Declarative Pipelines, with their values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from forebay.core.errors import OptionError
from forebay.spark.template import init


def test_the_values_are_quoted(tmp_path: Path) -> None:
    project = tmp_path / "it's: {a} project"
    paths = init(str(project), "a:1,b:2", 'queue "1"', user="u#1", vhost="/v")
    assert sorted(paths) == sorted(str(path) for path in project.rglob("*") if path.is_file())
    spec = yaml.safe_load((project / "spark-pipeline.yml").read_text())
    assert spec["name"] == "it's: {a} project"
    configuration = {name.removeprefix("spark.forebay."): value for name, value in spec["configuration"].items()}
    assert configuration["servers"] == "a:1,b:2"
    assert configuration["queue"] == 'queue "1"'
    assert (configuration["user"], configuration["vhost"], configuration["into"]) == ("u#1", "/v", "results")
    assert not [path for path in paths if "{{" in Path(path).read_text()]
    assert os.access(project / "run.sh", os.X_OK)


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"folder: .* is not an empty folder"):
        init(str(tmp_path), "a:1", "q")
    with pytest.raises(OptionError, match=r"folder: .* is not an empty folder"):
        init(str(tmp_path / "file"), "a:1", "q")
    with pytest.raises(OptionError, match="queue: must not be empty"):
        init(str(tmp_path / "new"), "a:1", "")
    assert not (tmp_path / "new").exists()
