"""A client of MongoDB at a command line: it sends each line of its input as a command, and prints the reply.

    python mongodb_program.py URI

A line is a command as Extended JSON, with `$db`. The line `wait` waits for changes of the database, for longer than any
test runs. It logs in at once, never repeats a command, and ends with its connection: it opens no second one.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pymongo
from bson import json_util
from pymongo import monitoring
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.synchronous.database import Database

WAIT = "wait"
LONG = 1_800_000  # milliseconds


class OneConnection(monitoring.ConnectionPoolListener):
    """Ends the program when the driver opens another connection in place of the first."""

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        if event.connection_id > 1:
            print("ERROR connection closed", flush=True)
            os._exit(1)

    def _ignore(self, event: object) -> None: ...

    pool_created = pool_ready = pool_cleared = pool_closed = connection_ready = connection_closed = _ignore
    connection_check_out_started = connection_check_out_failed = _ignore
    connection_checked_out = connection_checked_in = _ignore


def main(uri: str) -> int:
    options: dict[str, Any] = {"maxPoolSize": 1, "retryReads": False, "retryWrites": False}
    options["event_listeners"] = [OneConnection()]
    with pymongo.MongoClient[dict[str, Any]](uri, **options) as client:
        try:
            client.admin.command("ping")
        except PyMongoError as error:
            show_error(error)
            return 1
        for line in sys.stdin:
            try:
                if line.strip() == WAIT:
                    wait(client.get_default_database())
                elif line.strip():
                    show(run(client, line))
            except PyMongoError as error:
                show_error(error)
    return 0


def run(client: pymongo.MongoClient[dict[str, Any]], line: str) -> dict[str, Any]:
    command = json.loads(line, object_pairs_hook=json_util.object_pairs_hook)
    return client[command.pop("$db")].command(command)


def wait(database: Database[dict[str, Any]]) -> None:
    with database.watch(max_await_time_ms=LONG) as changes:
        try:
            for change in changes:
                show(dict(change))
        except PyMongoError as error:
            show_error(error)


def show(reply: dict[str, Any]) -> None:
    print(json_util.dumps(reply, json_options=json_util.RELAXED_JSON_OPTIONS, ensure_ascii=False), flush=True)


def show_error(error: PyMongoError) -> None:
    code = f"{error.code} " if isinstance(error, OperationFailure) else ""
    print(f"ERROR {code}{error}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
