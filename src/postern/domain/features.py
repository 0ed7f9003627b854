"""Features that an organisation can enable or disable.

A stricter setting takes effect at once. Most features are ways of access: disabling one closes it. `access-control` is
the reverse: while it is ON access rules hide connections from those whom they do not name, and while it is off every
active member of the organisation can see and use every connection. `self-review` gives a right to users who could
approve for each other anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Feature(StrEnum):
    ACCESS_CONTROL = "access-control"
    API_KEYS = "api-keys"
    NATIVE_CREDENTIALS = "native-credentials"
    REVIEWS = "reviews"
    SCRIPT_RUNS = "script-runs"
    SELF_REVIEW = "self-review"
    SESSION_DOWNLOAD = "session-download"
    SSH_KEYS = "ssh-keys"


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """`meaning` is what applies while it is on; `default` applies where nothing was chosen."""

    meaning: str
    default: bool = True


FEATURES: Mapping[Feature, FeatureSpec] = MappingProxyType(
    {
        # Off until chosen: on, it hides every connection that no rule covers, so the rules are written first.
        Feature.ACCESS_CONTROL: FeatureSpec(
            "only groups that an access rule names can see and use a connection", default=False
        ),
        Feature.API_KEYS: FeatureSpec("programs can use their API keys"),
        Feature.NATIVE_CREDENTIALS: FeatureSpec("native clients can log in with connection credentials"),
        # While it is off, requests that need a review are denied.
        Feature.REVIEWS: FeatureSpec("users can request reviews, and reviewers can decide on them"),
        Feature.SCRIPT_RUNS: FeatureSpec("users can run scripts through the API and the command line"),
        # Off until chosen: on, one pair of eyes is enough.
        Feature.SELF_REVIEW: FeatureSpec(
            "reviewers can approve their own requests; such approvals are marked", default=False
        ),
        Feature.SESSION_DOWNLOAD: FeatureSpec("recorded sessions can be downloaded as files"),
        Feature.SSH_KEYS: FeatureSpec("users can log in by SSH with public keys that they have added"),
    }
)
