"""The name by which this program is called in what it prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from postern.wiring.program import path_hint, program_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a virtual environment, with a blank in its path."""
    made = tmp_path / "my venv" / "bin"
    made.mkdir(parents=True)
    (made / "postern").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c 'print(\"here\")'\n")
    (made / "postern").chmod(0o755)
    return made


@pytest.mark.parametrize("argument", ["relative", "absolute"])
def test_program_that_is_not_on_the_path_is_named_in_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(sys, "argv", ["bin/postern" if argument == "relative" else str(folder / "postern")])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    pasted = subprocess.run(program_name(), shell=True, cwd="/", capture_output=True, text=True, check=True)
    assert pasted.stdout == "here\n"
    hint = path_hint()
    assert hint is not None
    by_name = subprocess.run(f"{hint}; postern", shell=True, cwd="/", capture_output=True, text=True, check=True)
    assert by_name.stdout == "here\n"


def test_program_on_the_path_is_called_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(folder / "postern")])
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert (program_name(), path_hint()) == ("postern", None)


def test_module_is_called_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/postern/__main__.py"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program_name() == f"{shlex.quote(sys.executable)} -m postern"
    assert path_hint() is None
