"""Replaces itself by the command, after the steps that only the new process itself can do. It is a separate program: a
fork of the agent, which has threads, could not safely run Python code.

    python -I -S launcher.py PARENT TERMINAL FILES ARGV…        PARENT: the agent's pid; TERMINAL: 1 when stdin is one;
                                                                FILES: limit of open files for the command
"""

from __future__ import annotations

import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, terminal: bool, files: int, argv: list[str]) -> None:
    if sys.platform == "linux":
        import ctypes  # nothing else here needs it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the agent died before its death signal was set up
            os._exit(1)
    if terminal:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard == resource.RLIM_INFINITY else min(files, hard), hard))
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # reset what Python changed or inherited
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the whole point: no shell in between
    except OSError as error:
        os.write(2, f"postern: {argv[0]} cannot be run: {error.strerror}\n".encode(errors="replace"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "1", int(sys.argv[3]), sys.argv[4:])
