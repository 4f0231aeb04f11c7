"""Opens a table by its folder or name: finds its format, and checks that it has the requested layout."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from forebay.spark.tables.layout import Layout, TableError, check_columns, local_path
from forebay.spark.tables.table import ABOUT, LakeTable, write_file

DESCRIPTION: Final = "table.json"


def open_table(into: str, format: str | None = None, layout: Layout | None = None, catalog: Any = None) -> LakeTable:
    """Open a table, or create one if there is none and a layout is given.

    into     its folder; with a catalog the table's name there, NAMESPACE.NAME
    format   parquet, delta or iceberg; optional if the folder has a table
    layout   the layout that the table must have; None accepts any
    catalog  of PyIceberg; without one, an Iceberg table has its own catalog in its folder
    raises   TableError if there is no table, or one of another format or layout
    """
    folder = into if catalog is None else None
    if folder is not None:
        folder = os.path.abspath(local_path(folder))
        found = described(folder)
        if found is None and layout is None:
            raise TableError(f"{folder}: there is no table that a queue was tiered into")
        if found is not None:
            check_same(folder, found, format, layout)
            format, layout = found["format"], Layout.from_json(found)
    format = format or ("parquet" if catalog is None else "iceberg")
    if format not in {"parquet", "delta", "iceberg"}:
        raise TableError(f"format: {format!r} is none of parquet, delta, iceberg")
    if catalog is not None and format != "iceberg":
        raise TableError(f"catalog: only for format iceberg, not {format}")
    table = made(format, folder, layout, into, catalog)
    if described(table.folder) is None:
        describe(table)
    return table


def made(format: str, folder: str | None, layout: Layout | None, name: str, catalog: Any) -> LakeTable:
    """Return the object of a table, importing only what its format needs."""
    if format == "iceberg":
        from forebay.spark.tables.iceberg import open_iceberg

        return open_iceberg(folder, layout, name, catalog)
    assert folder is not None and layout is not None
    if format == "delta":
        from forebay.spark.tables.delta import DeltaLakeTable

        return DeltaLakeTable(folder, layout)
    from forebay.spark.tables.parquet import ParquetTable

    return ParquetTable(folder, layout)


def described(folder: str) -> dict[str, Any] | None:
    """Return the description stored in the table's folder, or None if there is none.

    Raises TableError for a newer version.
    """
    try:
        with open(os.path.join(folder, ABOUT, DESCRIPTION), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    if found.get("version") != 1:
        raise TableError(f"{folder}/{ABOUT}/{DESCRIPTION}: version {found.get('version')!r} is not known here")
    return found


def describe(table: LakeTable) -> None:
    values = {"version": 1, "format": table.format, **table.layout.to_json()}
    write_file(os.path.join(table.folder, ABOUT, DESCRIPTION), json.dumps(values, indent=1).encode())


def check_same(folder: str, found: dict[str, Any], format: str | None, layout: Layout | None) -> None:
    if format is not None and format != found["format"]:
        raise TableError(f"format: {format}, but the table in {folder} is {found['format']}")
    there = Layout.from_json(found)
    if layout is not None and layout != there:
        check_columns(f"the table in {folder}", there.arrow_schema().names, there.partition_names, layout)
