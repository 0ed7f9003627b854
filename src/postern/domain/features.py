"""What an organisation can switch on and off. A flag is here only when something asks for it.

A flag that is off takes a way away; none of them opens one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Feature(StrEnum):
    API_KEYS = "api-keys"
    NATIVE_CREDENTIALS = "native-credentials"
    SCRIPT_RUNS = "script-runs"
    SESSION_DOWNLOAD = "session-download"


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """`meaning` is what is possible while it is on; `default` holds where nobody chose."""

    meaning: str
    default: bool = True


FEATURES: Mapping[Feature, FeatureSpec] = MappingProxyType(
    {
        Feature.API_KEYS: FeatureSpec("programs may use their API keys"),
        Feature.NATIVE_CREDENTIALS: FeatureSpec("native clients may log in with connection credentials"),
        Feature.SCRIPT_RUNS: FeatureSpec("scripts may be run through the API and the command line"),
        Feature.SESSION_DOWNLOAD: FeatureSpec("recorded sessions may be downloaded as files"),
    }
)
