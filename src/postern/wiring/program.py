"""The name of this program on this machine: for printed commands, which users paste."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """Return `postern` if the shell finds this program, and otherwise its full path, quoted for a shell.

    `make up` runs it from a virtual environment that is not active. A different program that contains it prints
    `postern`.
    """
    path, program = Path(sys.argv[0]), shutil.which("postern")
    if path.parts[-2:] == ("postern", "__main__.py"):
        return "postern" if program else f"{shlex.quote(sys.executable)} -m postern"
    if path.name != "postern":
        return "postern"
    if program and path.exists() and Path(program).samefile(path):
        return "postern"
    return shlex.quote(str(path.absolute()))


def path_hint() -> str | None:
    """Return the line that makes `postern` alone work in a shell; None if it does, or no line can."""
    folder = Path(sys.argv[0]).absolute().parent
    if program_name() == "postern" or not (folder / "postern").exists():
        return None
    return f"export PATH={shlex.quote(str(folder))}:$PATH"
