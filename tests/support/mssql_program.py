"""A client of SQL Server at a command line: it runs each line of its input as a batch, and prints rows and errors.

    python mssql_program.py PORT USER PASSWORD DATABASE

It logs in at once, and ends with its connection: it opens no second one.
"""

from __future__ import annotations

import sys

import pytds

HOST = "127.0.0.1"
TIMEOUT = 120  # seconds that a login can wait for a review


def main(port: str, user: str, password: str, database: str) -> int:
    address = {"dsn": HOST, "port": int(port), "login_timeout": TIMEOUT, "autocommit": True}
    try:
        connection = pytds.connect(user=user, password=password, database=database, **address)
    except pytds.Error as error:
        show_error(error)
        return 1
    for line in sys.stdin:
        try:
            if line.strip():
                run(connection, line)
        except pytds.DatabaseError as error:
            show_error(error)
        except (pytds.Error, OSError) as error:
            print(f"ERROR connection closed: {error}", flush=True)
            return 1
    return 0


def run(connection: pytds.Connection, line: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(line)
        while cursor.description is None and cursor.nextset():
            pass
        for row in cursor.fetchall() if cursor.description else ():
            print(*row, sep="\t", flush=True)


def show_error(error: pytds.Error) -> None:
    print(f"ERROR {getattr(error, 'msg_no', 0)} {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
