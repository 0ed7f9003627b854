"""The build backend: setuptools, after the web application is built (PEP 517)."""

from __future__ import annotations

from typing import Any

import build_web
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that are as they are


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *build_web.requirements()]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_sdist(config_settings), *build_web.requirements()]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    build_web.build()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    build_web.build()
    return build_meta.build_sdist(sdist_directory, config_settings)
