"""Sessions of others: what `register` finds out of their workers, and tells the source."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.core.errors import OptionError
from forebay.spark import register
from forebay.spark.setup.parallelism import ADDRESS, parallelism_of_context, tasks_at_once

WHAT_TO_SET = f"or start with PYSPARK_PYTHON={sys.executable} in the environment"


def python(folder: Path, *lines: str) -> str:
    """A command that runs this Python in another way."""
    command = folder / "python3"
    command.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    command.chmod(0o755)
    return str(command)


def test_workers_without_forebay_are_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "forebay.py").write_text("raise ImportError('no such package here')")
    other = python(tmp_path, f'PYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"')
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other)
    with pytest.raises(OptionError) as caught:
        register(spark)
    said = f"Spark's workers run {sys.executable}, which cannot import forebay: ImportError: no such package here. "
    assert str(caught.value).startswith(said)
    assert WHAT_TO_SET in str(caught.value)


def test_workers_that_cannot_start_are_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = python(tmp_path, f'exec {sys.executable} -S -E "$@"')
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other)
    with pytest.raises(OptionError) as caught:
        register(spark)
    assert str(caught.value).startswith(f"Spark's workers run {other}, which cannot import forebay: ")
    assert "No module named 'pyspark" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_session_that_is_registered_knows_how_many_tasks_run_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    assert parallelism_of_context() == 2
    monkeypatch.setenv(ADDRESS, spark.sparkContext.environment[ADDRESS])
    assert tasks_at_once() == 2
    workers = spark.range(1).rdd.map(lambda _: os.environ[ADDRESS]).collect()
    assert workers == [os.environ[ADDRESS]]
