"""A SPARK_HOME without the archive of sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from forebay.spark.home import find_home, prepare_home

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_all_of_the_installed_home_but_the_archive(tmp_path: Path) -> None:
    home = Path(find_home(os.environ))
    assert home.parent == tmp_path / "cache" / "forebay"
    assert {path.name for path in home.iterdir()} == {path.name for path in INSTALLED.iterdir()} - {"python"}
    assert (home / "jars").resolve() == INSTALLED / "jars"
    assert (home / "bin" / "spark-submit").exists()
    assert find_home(os.environ) == str(home)
    assert list(home.parent.iterdir()) == [home]


def test_many_make_it_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "forebay.spark.home"]
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {maker.communicate()[0].strip() for maker in makers} == {find_home(os.environ)}
    assert len(list((tmp_path / "cache" / "forebay").iterdir())) == 1


def test_where_it_cannot_be_made_it_is_the_installed_one(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert find_home(os.environ) == str(INSTALLED)


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    prepare_home()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/python3")
    prepare_home()
    assert "SPARK_HOME" not in os.environ
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    made = find_home(os.environ)
    monkeypatch.setenv("SPARK_HOME", "")  # so that it is taken back at the end
    del os.environ["SPARK_HOME"]
    prepare_home()
    assert os.environ["SPARK_HOME"] == made
