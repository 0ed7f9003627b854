"""PyMongo's own tests, from the source package of the installed version. They are downloaded, and no part of this
project."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

import pymongo
import pytest

TEST_TIMEOUT: Final = 20  # seconds of one test
_PACKAGE: Final = f"pymongo-{pymongo.version}"


@dataclass(frozen=True)
class Outcome:
    """How one test ended: passed, failed or skipped, and why."""

    kind: str
    reason: str


@dataclass(frozen=True)
class SuiteServer:
    """Where the tests connect to. `load_balanced` adds that option."""

    port: int
    user: str
    password: str
    load_balanced: bool = False

    def environment(self) -> dict[str, str]:
        variables = {
            "DB_IP": "localhost",
            "DB_PORT": str(self.port),
            "DB_USER": self.user,
            "DB_PASSWORD": self.password,
        }
        if self.load_balanced:
            login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
            uri = f"mongodb://{login}@localhost:{self.port}/?loadBalanced=true"
            variables |= {"TEST_LOAD_BALANCER": "1", "SINGLE_MONGOS_LB_URI": uri}
        return variables


def downloaded_suite() -> Path:
    """Return the folder with the tests. Without a network they are skipped, visibly."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tools" / "pymongo-suite"
    folder = cache / _PACKAGE
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    what = ["--no-binary", ":all:", "--no-deps", "--dest", str(cache), f"pymongo=={pymongo.version}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", *what], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(f"PyMongo's source package cannot be downloaded: {done.stderr[-200:]}")
    with tarfile.open(cache / f"{_PACKAGE}.tar.gz") as package:
        # Without the library itself: the installed one is tested.
        members = [member for member in package.getmembers() if member.name.startswith(f"{_PACKAGE}/test/")]
        package.extractall(cache, members=members, filter="data")
    return folder


def start_tests(folder: Path, file: str, server: SuiteServer, report: Path) -> subprocess.Popen[bytes]:
    """Start the tests of one file of the suite. `outcomes` reads the report when they have ended."""
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--timeout={TEST_TIMEOUT}", "-c", "/dev/null", "--rootdir=."]
    skipped = [f"--deselect=test/{file}.py::{name}" for name in TOO_SLOW.get(file, ())]
    command = [sys.executable, "-m", "pytest", *options, *skipped, f"--junitxml={report}", f"test/{file}.py"]
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTEST_ADDOPTS"}}
    with report.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env={**kept, **server.environment()}, stdout=log, stderr=log, start_new_session=True
        )


def outcomes(report: Path) -> Mapping[str, Outcome]:
    """Return how each test ended, by `Class.test`."""
    assert report.exists(), report.with_suffix(".log").read_text(errors="replace")[-2000:]
    ended = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcome = Outcome("passed", "")
        for child in case:
            kind = "skipped" if child.tag == "skipped" else "failed"
            outcome = Outcome(kind, child.get("message") or "")
        ended[f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"] = outcome
    return ended


# Tests of hundreds of MB or of 100,000 documents, which take SecantusDB longer than the timeout, and what they leave
# changes those that follow; and one after which it does not answer any more.
TOO_SLOW: Final[Mapping[str, tuple[str, ...]]] = {
    "test_collection": (
        "TestCollection::test_insert_many_large_batch",
        "TestCollection::test_large_limit",
        "TestCollection::test_messages_with_unicode_collection_names",
        "TestCollection::test_numerous_inserts",
    ),
    "test_bulk": ("TestBulk::test_numerous_inserts",),
    "test_client_bulk_write": (
        "TestClientBulkWriteCRUD::test_3_batch_splits_if_num_operations_too_large",
        "TestClientBulkWriteCRUD::test_5_collects_write_concern_errors_across_batches",
        "TestClientBulkWriteCRUD::test_6_collects_write_errors_across_batches_unordered",
        "TestClientBulkWriteCRUD::test_6_collects_write_errors_across_batches_ordered",
    ),
}
