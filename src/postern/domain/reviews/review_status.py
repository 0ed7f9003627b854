"""The states of a review."""

from __future__ import annotations

from enum import StrEnum


class ReviewStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVOKED = "REVOKED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"
    PROCESSING = "PROCESSING"
    EXECUTED = "EXECUTED"
