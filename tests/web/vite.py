"""Vite's server, which serves the web application, or parts of it, from their source."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.postgres import free_port
from tests.support.promises import wait_until
from tests.web.conftest import AXE, ROOT, require

PROGRAM = AXE.parents[1] / "vite" / "bin" / "vite.js"


@contextlib.contextmanager
def running_vite(folder: Path, *options: str, **variables: str) -> Iterator[str]:
    """Its address. `folder` gets its log."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    node = shutil.which("node", path=path)
    require(node is not None and PROGRAM.is_file(), "Node or its packages are missing; run `make web`")
    assert node is not None
    port, log = free_port(), folder / "log"
    command = [node, str(PROGRAM), *options, "--port", str(port), "--strictPort"]
    with log.open("w") as output:
        server = subprocess.Popen(
            command, cwd=ROOT / "web", env=os.environ | variables, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: "Local" in log.read_text())
        yield f"http://localhost:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)  # Node can be a child of a program of Python
        server.wait()
