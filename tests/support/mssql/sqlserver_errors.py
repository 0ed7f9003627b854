"""Errors with the numbers and texts of SQL Server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass
class SqlError(Exception):
    """An error for the client. `severity` from 16 on is a failure; 20 and more end the connection."""

    number: int
    text: str
    severity: int = 16
    state: int = 1
    line: int = 1
    procedure: str = ""

    def __str__(self) -> str:
        return f"{self.number}: {self.text}"

    @property
    def ends_batch(self) -> bool:
        return self.number in ENDS_BATCH or self.severity >= 19


# After these the rest of the batch does not run.
ENDS_BATCH: Final = frozenset({102, 105, 137, 156, 207, 208, 241, 245, 295, 911, 1205, 3930, 8114, 8169, 8178})


def syntax_error(near: str) -> SqlError:
    return SqlError(102, f"Incorrect syntax near '{near}'.", 15)


def conversion_failed(value: object, source: str, target: str) -> SqlError:
    return SqlError(245, f"Conversion failed when converting the {source} value '{value}' to data type {target}.")


def invalid_object(name: str) -> SqlError:
    return SqlError(208, f"Invalid object name '{name}'.")


def missing_procedure(name: str) -> SqlError:
    return SqlError(2812, f"Could not find stored procedure '{name}'.", state=62)


def missing_variable(name: str) -> SqlError:
    return SqlError(137, f'Must declare the scalar variable "{name}".', 15, 2)


def not_supported(what: str) -> SqlError:
    """An error that SQL Server does not have: the test server lacks something."""
    return SqlError(40000, f"the test server does not support {what}")
