"""The fork server: a process that has loaded the program once, and forks the gateway's other processes.

A forked process need not load the program, which takes most of the time of a start, and shares its memory with the
others. The server has one thread, no event loop, no connection and no secret: it forks, and the new process gets its
arguments and its environment from the supervisor itself (forked_processes.py).

A new process becomes a child of the supervisor, and not of this process, which can therefore end without effect on
others. For that it is forked by an intermediate process that ends at once: the kernel gives the orphan to the
supervisor, which adopts orphans meanwhile (`PR_SET_CHILD_SUBREAPER`).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from postern.process import READY_FD, die_with_parent, release_memory

# A service manager sends SIGTERM to every process of a gateway. This one ends with the supervisor, which needs it until
# then. Blocked and not ignored, so that a new process loses none.
_BLOCKED = (signal.SIGTERM, signal.SIGINT)
ANSWER = struct.Struct("i")  # the id of a new process; 0: it could not be forked
MOST = 16 * 1024  # bytes of a request: names of modules, with spaces between them
_ARGUMENT_AREA = slice(45, 47)  # arg_start and arg_end among the fields of /proc/PID/stat behind the name


def serve(arguments: Sequence[str]) -> None:
    """Serve until the supervisor ends. Return only in a new process, with its `sys.argv` and environment.

    `arguments`: the descriptor of a socket for requests, and the modules to load while there are none.
    """
    die_with_parent(by=signal.SIGKILL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    own_environment = dict(os.environ)
    ahead = list(arguments[1:])
    gc.disable()  # modules are never garbage
    while True:
        if ahead and not select.select([channel], [], [], 0)[0]:
            _load(ahead.pop(0))
            continue
        request, descriptors, _, _ = socket.recv_fds(channel, MOST, 2)
        if not request:
            os._exit(0)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        for module in request.decode().split():
            _load(module)
        release_memory()
        gc.freeze()  # the collector of a new process need not touch, and so copy, what all share
        is_new = _fork(channel)
        if is_new:
            channel.close()
            start, ready = descriptors
            _become(start, ready, own_environment)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _load(module: str) -> None:
    with suppress(Exception):  # the new process meets the same error, and reports it
        importlib.import_module(module)


def _fork(channel: socket.socket) -> bool:
    """Answer the id of a new process. Return True in that."""
    reading, writing = os.pipe()
    try:
        intermediate = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        channel.send(ANSWER.pack(0))
        return False
    if not intermediate:
        os.close(reading)
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(writing, ANSWER.pack(pid))
            os._exit(0)
        os.close(writing)
        return True
    os.close(writing)
    answer = os.read(reading, ANSWER.size)
    os.close(reading)
    os.waitpid(intermediate, 0)  # from here on the new process is the supervisor's
    channel.send(answer or ANSWER.pack(0))
    return False


def _become(start: int, ready: int, former: dict[str, str]) -> None:
    """Wait until the supervisor has adopted this process and says what it is. Ends this process if it never does."""
    with open(start, "rb") as stream:
        order = stream.read()
    try:
        content = json.loads(order)
    except ValueError:
        os._exit(0)
    os.setsid()
    # Libraries that set variables when they are loaded rely on them.
    added = {name: value for name, value in os.environ.items() if former.get(name) != value}
    os.environ.clear()
    os.environ.update({**added, **content["environment"], READY_FD: str(ready)})
    sys.argv[1:] = content["arguments"]
    _show_command_line(content["command_line"])
    gc.enable()


def _show_command_line(words: Sequence[str]) -> None:
    """Make `ps` show these words for this process. They are cut if there is no room for them."""
    with suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = map(int, fields[_ARGUMENT_AREA])
        size = end - begin
        if begin and len(Path("/proc/self/cmdline").read_bytes()) == size:  # it is where we think it is
            line = b"".join(os.fsencode(word) + b"\0" for word in words)[: size - 1]
            ctypes.memmove(begin, line.ljust(size, b"\0"), size)
