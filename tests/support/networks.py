"""Networks that only their agent reaches: network namespaces, each joined to this machine by a link of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

INSIDE = "192.168.77.1"  # the same address in each network: nothing but an agent in there can mean the right one
_NOBODY = "02:00:00:00:00:99"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def need_namespaces() -> None:
    """Elsewhere than on Linux, and for others than root, a skip that says so."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    probe = f"postern{os.getpid()}p"
    try:
        ip("netns", "add", probe)
        ip("netns", "del", probe)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no network namespaces here: {error}")


@dataclass
class Network:
    """`here` and `there` are the two ends of its link, `number` (1 to 99) of this process's alone. `entering` are words
    to start a program inside by."""

    number: int
    here: str = field(init=False)
    there: str = field(init=False)
    name: str = field(init=False)
    entering: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Tests run beside each other: networks of two processes must not meet.
        net = f"10.{180 + os.getpid() % 64}.{os.getpid() // 64 % 2 * 100 + self.number}"
        self.here, self.there = f"{net}.1", f"{net}.2"
        self.name = f"postern{os.getpid()}n{self.number}"
        self._link = f"pn{os.getpid()}x{self.number}"
        self.entering = ("ip", "netns", "exec", self.name)

    def make(self) -> None:
        ip("netns", "add", self.name)
        ip("link", "add", self._link, "type", "veth", "peer", "name", "out", "netns", self.name)
        ip("addr", "add", f"{self.here}/24", "dev", self._link)
        ip("-n", self.name, "addr", "add", f"{self.there}/24", "dev", "out")
        ip("-n", self.name, "addr", "add", f"{INSIDE}/32", "dev", "lo")
        ip("link", "set", self._link, "up")
        for device in ("out", "lo"):
            ip("-n", self.name, "link", "set", device, "up")
        ip("-n", self.name, "route", "add", "default", "via", self.here)

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Both ways, packets go to a machine that is not there: nobody who sends them is told."""
        ip("neigh", "replace", self.there, "lladdr", _NOBODY, "dev", self._link, "nud", "permanent")
        ip("-n", self.name, "neigh", "replace", self.here, "lladdr", _NOBODY, "dev", "out", "nud", "permanent")
        try:
            yield
        finally:
            ip("neigh", "del", self.there, "dev", self._link)
            ip("-n", self.name, "neigh", "del", self.here, "dev", "out")


@contextmanager
def networks(count: int) -> Iterator[list[Network]]:
    """Made, and removed at the end. Skips the test where they cannot be had."""
    need_namespaces()
    made = [Network(number) for number in range(1, count + 1)]
    try:
        for network in made:
            network.make()
        yield made
    finally:
        for network in made:
            network.remove()
