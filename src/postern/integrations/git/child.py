"""The child process: it reads one request from standard input and writes one answer to standard output.

It writes no file, starts no program and connects to one host only. It limits its own resources before it reads anything
from outside; its parent ends it at its deadline.
"""

from __future__ import annotations

import ctypes.util
import os
import resource
import signal
import sys
from typing import BinaryIO

from postern.errors import PosternError, Unavailable
from postern.integrations.git import messages
from postern.integrations.git.messages import GitRequest
from postern.process import die_with_parent, hide_from_own_user


def main() -> None:
    die_with_parent(by=signal.SIGKILL)
    hide_from_own_user()
    request = messages.decode_request(sys.stdin.buffer.read())
    _limit_resources(request)
    ctypes.util.find_library = _no_library
    from postern.integrations.git import git_tasks

    answers = _answers()
    try:
        answer = git_tasks.do(request)
    except PosternError as error:
        answer = messages.failure(error)
    except MemoryError:
        answer = messages.failure(Unavailable("reading the repository needs more memory than is allowed"))
    with answers:
        answers.write(answer)


def _answers() -> BinaryIO:
    """Redirect standard output, so that nothing but the answer reaches the parent, whatever a library prints."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    answers.write(messages.READY)
    answers.flush()
    return answers


def _limit_resources(request: GitRequest) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, request.policy.limits.memory)
    _limit(resource.RLIMIT_CPU, int(request.seconds) + 1)
    if request.task != "write" or not request.repository.git_url.startswith("file:"):
        _limit(resource.RLIMIT_FSIZE, 0)


def _no_library(name: str) -> None:
    """Find no optional library: asyncssh searches for some, for which ctypes would run a compiler."""


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    main()
