"""A fork server whose processes run a few lines of Python, as `python -c` does."""

from __future__ import annotations

from collections.abc import Mapping

from postern.gateway.processes.forked_processes import ForkServer

_PROGRAM = """
import sys
from postern.gateway.processes.fork_server import serve
serve(sys.argv[1:])
sys.argv[0] = "-c"
exec(compile(sys.argv.pop(1), "<string>", "exec"), {"__name__": "__main__"})
"""


def program_server(environment: Mapping[str, str], *modules: str) -> ForkServer:
    return ForkServer(("-c", _PROGRAM), ("-c",), environment, modules)
