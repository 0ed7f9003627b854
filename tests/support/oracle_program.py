"""A client of Oracle Database at a command line: it runs each line of its input, and prints rows and errors.

    python oracle_program.py DSN USER PASSWORD

It logs in at once, and ends with its connection: it opens no second one.
"""

from __future__ import annotations

import sys

import oracledb

TIMEOUT = 120.0  # seconds that a login can wait for a review


def main(dsn: str, user: str, password: str) -> int:
    try:
        connection = oracledb.connect(user=user, password=password, dsn=dsn, tcp_connect_timeout=TIMEOUT)
    except oracledb.Error as error:
        show_error(error)
        return 1
    for line in sys.stdin:
        try:
            if line.strip():
                run(connection, line.strip())
        except oracledb.Error as error:
            show_error(error)
            if not connection.is_healthy():
                return 1
    return 0


def run(connection: oracledb.Connection, line: str) -> None:
    statement = line if line.lower().startswith(("begin", "declare")) else line.removesuffix(";")
    with connection.cursor() as cursor:
        cursor.execute(statement)
        for row in cursor if cursor.description else ():
            print(*row, sep="\t", flush=True)


def show_error(error: oracledb.Error) -> None:
    print(f"ERROR {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
