"""The tool runs seeds and says how they went."""

from __future__ import annotations

import sys

import pytest

from tools.simulate_replicas import main


def test_seeds_are_run_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate_replicas.py", "--seeds", "2", "--first", "3"])
    assert main() == 0
    told = capsys.readouterr().out
    assert told.startswith("2 seeds, ")
    assert "confirmed: " in told
