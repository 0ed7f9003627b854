"""Ctrl-C in the compilation of the hot path ends every compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.promises import wait_until

ROOT = Path(__file__).resolve().parent.parent
FILES = 40  # more than there are processors
BUILD = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import setuptools
calls = []
setuptools.setup = lambda **given: calls.append(given)
runpy.run_path({setup!r})
distribution = setuptools.Distribution({{"ext_modules": [setuptools.Extension("m", {sources!r})]}})
command = calls[0]["cmdclass"]["build_ext"](distribution)
command.build_temp = command.build_lib = {folder!r}
command.ensure_finalized()
command.run()
"""


def test_interrupted_build_starts_no_further_compiler(tmp_path: Path) -> None:
    started = tmp_path / "started"
    started.mkdir()
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\ntouch {started}/$$\nexec sleep 600\n")
    compiler.chmod(0o755)
    sources = [str(tmp_path / f"m{number}.c") for number in range(FILES)]
    for source in sources:
        Path(source).touch()
    script = BUILD.format(setup=str(ROOT / "setup.py"), sources=sources, folder=str(tmp_path))
    environment = {**os.environ, "POSTERN_COMPILE": "0", "CC": str(compiler)}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        start_new_session=True,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as build:
        wait_until(lambda: len(list(started.iterdir())) == os.cpu_count())
        os.killpg(build.pid, signal.SIGINT)  # as a terminal does
        try:
            wait_until(lambda: build.poll() is not None, 60)
        finally:
            if build.poll() is None:
                os.killpg(build.pid, signal.SIGKILL)
        assert build.stderr is not None
        assert b"KeyboardInterrupt" in build.stderr.read()
    assert len(list(started.iterdir())) == os.cpu_count()
