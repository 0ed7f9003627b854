"""Drivers and object mappers of MongoDB that are installed for tests: scripts/install-services gets them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.support.installed_tools import installed_tool, say_missing


def installed_node_driver() -> Path:
    """Return the folder with the `node_modules` of the Node.js driver."""
    return installed_tool("mongodb-node")


def installed_mappers() -> str:
    """Return the folder with Motor, MongoEngine and Beanie, for PYTHONPATH."""
    return str(installed_tool("mongodb-mappers"))


def node() -> str:
    """Return the program of Node.js: the one of the tests' Python packages, or an installed one."""
    bundled = Path(sys.executable).with_name("node")
    program = str(bundled) if bundled.exists() else shutil.which("node")
    if program is None:
        say_missing("node")
    assert program is not None
    return program
