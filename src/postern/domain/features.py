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
            "only groups that an access rule names may see and use a connection", default=False
        ),
        Feature.API_KEYS: FeatureSpec("programs may use their API keys"),
        Feature.NATIVE_CREDENTIALS: FeatureSpec("native clients may log in with connection credentials"),
        # Off, nobody can be asked: what needs a review is refused, never let through.
        Feature.REVIEWS: FeatureSpec("who needs a review may ask for one, and reviewers may decide"),
        Feature.SCRIPT_RUNS: FeatureSpec("scripts may be run through the API and the command line"),
        # Off until chosen: on, one pair of eyes is enough.
        Feature.SELF_REVIEW: FeatureSpec(
            "reviewers can approve their own requests; such approvals are marked", default=False
        ),
        Feature.SESSION_DOWNLOAD: FeatureSpec("recorded sessions may be downloaded as files"),
        Feature.SSH_KEYS: FeatureSpec("users may log in by SSH with public keys that they have added themselves"),
    }
)
