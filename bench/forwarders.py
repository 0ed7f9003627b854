"""Two bare forwarders: what it costs to pass bytes on and do nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.rival import Rival, RivalUnavailableError, Target

_FOLDER = Path(__file__).resolve().parent


class CForwarder(Rival):
    """bench/forwarder.c, compiled on this machine: epoll, one thread."""

    def prepare(self, target: Target) -> list[str]:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise RivalUnavailableError("this machine has no C compiler (`cc`; Debian package: gcc)")
        program = self.folder / "forwarder"
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(_FOLDER / "forwarder.c")]
        compiled = subprocess.run(command, capture_output=True, text=True, check=False)
        if compiled.returncode:
            raise RivalUnavailableError(f"`{' '.join(command)}` failed: {compiled.stderr}")
        return [str(program), str(self.port), str(target.port)]


class PythonForwarder(Rival):
    """bench/forwarder.py: uvloop, which Postern uses, too."""

    def prepare(self, target: Target) -> list[str]:
        return [sys.executable, "-P", str(_FOLDER / "forwarder.py"), str(self.port), str(target.port)]
