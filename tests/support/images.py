"""Container images without a registry and without Docker: buildah builds the Dockerfile on a base of Debian's packages,
and namespaces run the result as a container runtime would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# What the official Python image has, too.
PACKAGES = ("python3", "python3-venv", "python3-dev", "ca-certificates")
# The machine's own certificate authorities may be the only ones that its package registries have.
_ISOLATION = ("--isolation", "chroot", "--network", "host", "--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro")
# Mounts as `--read-only --tmpfs /tmp` makes them, and process 1 of its own; waits for its network before it runs.
_CONTAINER = """
set -e
root=$1 volume=$2; shift 2
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for name in null zero random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$volume" "$root/var/lib/postern"
mount -o remount,ro,bind "$root"
exec chroot "$root" "$@"
"""


def need_builder() -> None:
    missing = [name for name in ("buildah", "mmdebstrap", "unshare", "nsenter") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no image can be built: needs root and Debian's {', '.join(missing) or 'buildah'}")


@dataclass(frozen=True, slots=True)
class Container:
    """A running container. `outer` is the process that started it, `pid` its process 1, seen from outside."""

    outer: subprocess.Popen[bytes]
    pid: int
    root: Path
    log: Path
    command: tuple[str, ...]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program in it, as its user."""
        entering = ("nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "chroot", str(self.root))
        return subprocess.run(
            [*entering, *self.command, *arguments], capture_output=True, text=True, timeout=120, check=False
        )

    def processes(self) -> list[list[str]]:
        """Return the arguments of each of its processes."""
        done = self.run("sh", "-c", "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done")
        return [line.split() for line in done.stdout.splitlines() if line.strip()]


class Builder:
    """Images in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        places = ("--root", str(folder / "root"), "--runroot", str(folder / "run"))
        self._buildah = ("buildah", *places, "--storage-driver", "vfs")

    def run(self, *arguments: str | Path) -> str:
        command = [*self._buildah, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout.strip()

    def make_base(self, name: str, *more: str) -> None:
        """Make an image that stands for the official Python image, with `more` packages of Debian."""
        packed = self._folder / "base.tar"
        included = f"--include={','.join((*PACKAGES, *more))}"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", included, "bookworm", str(packed)]
        subprocess.run(command, check=True)
        container = self.run("from", "scratch")
        self.run("add", "--quiet", container, packed, "/")
        self.run("commit", "--quiet", "--rm", container, name)
        packed.unlink()

    def build(self, context: Path, name: str, **arguments: str) -> None:
        given = [part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")]
        self.run("bud", "--quiet", *_ISOLATION, "--pull-never", "--format", "docker", *given, "--tag", name, context)

    def config(self, name: str) -> dict[str, Any]:
        """Return what the image says about how it is run."""
        found: dict[str, Any] = json.loads(self.run("inspect", "--type", "image", name))["Docker"]["config"]
        return found

    def mount(self, name: str) -> Path:
        """Return a folder with the files of an image."""
        return Path(self.run("mount", self.run("from", "--pull-never", name)))

    def install(self, name: str, files: Mapping[str, Path], script: str) -> Path:
        """Run a shell script on an image, in a folder with `files`, and return the folder with the result."""
        container = self.run("from", "--pull-never", name)
        for target, path in files.items():
            self.run("copy", "--quiet", container, path, f"/root/{target}")
        self.run("run", *_ISOLATION, container, "--", "sh", "-ec", f"cd /root; {script}")
        return Path(self.run("mount", container))


@contextmanager
def running(root: Path, config: Mapping[str, Any], volume: Path, log: Path, *arguments: str) -> Iterator[Container]:
    """Run an image's files as its configuration says, with a read-only root, no capabilities and networks of its own,
    and stop it by its signal. Nothing is left of it afterwards."""
    user, _, group = config["User"].partition(":")
    become = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs")
    become += ("--bounding-set=-all", "--inh-caps=-all", "env", "-i", *config["Env"])
    words = (*config["Entrypoint"], *(arguments or config["Cmd"]))
    with log.open("wb") as output:
        outer = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"),
                *("bash", "-c", _CONTAINER, "container", str(root), str(volume), *become, *words),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        end = time.monotonic() + 30
        while not (found := children.read_text().split()) and time.monotonic() < end:
            time.sleep(0.02)
        yield Container(outer, int(found[0]), root, log, become)
    finally:
        outer.kill()
        outer.wait()


_UNIT = """
[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /root/script
StandardOutput=file:/root/output
StandardError=inherit
"""


def boot(root: Path, script: str) -> str:
    """Start systemd in a folder with a whole system, without a network, run a script there and return its output."""
    (root / "root" / "script").write_text(script)
    (root / "etc" / "systemd" / "system" / "script.service").write_text(_UNIT)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    started = ("systemd-nspawn", "--quiet", "--directory", str(root), "--keep-unit", "--register=no")
    subprocess.run(
        [*started, "--private-network", "--boot", "systemd.unit=script.service"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=300,
        check=True,
    )
    return (root / "root" / "output").read_text()
