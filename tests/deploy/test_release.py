"""How a release is cut and built; building twice gives the same bytes."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts import release

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/postern/__init__.py", "deploy/helm/postern/Chart.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n- A change.\n\n## 0.0.9 (2026-01-01)\n- Old.\n"
    )
    return tmp_path


def test_cut_sets_the_version_everywhere_and_names_the_section(tree: Path) -> None:
    release.cut("0.2.0", tree)
    assert release.version(tree) == "0.2.0"
    chart = (tree / "deploy/helm/postern/Chart.yaml").read_text()
    assert "\nversion: 0.2.0\n" in chart
    assert '\nappVersion: "0.2.0"\n' in chart
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (tree / "CHANGELOG.md").read_text() == (
        f"# Changelog\n\n## Unreleased\n\n## 0.2.0 ({today})\n\n- A change.\n\n## 0.0.9 (2026-01-01)\n- Old.\n"
    )
    assert release.notes("0.2.0", (tree / "CHANGELOG.md").read_text()) == "- A change."


@pytest.mark.parametrize(
    ("version", "reason"),
    [("0.0.9", "has a section 0.0.9 already"), ("v1", "is not a version"), ("1.0", "is not a version")],
)
def test_cut_refuses_a_version_that_cannot_be_released(tree: Path, version: str, reason: str) -> None:
    before = (tree / "CHANGELOG.md").read_text()
    with pytest.raises(release.ReleaseFailed, match=reason):
        release.cut(version, tree)
    assert (tree / "CHANGELOG.md").read_text() == before


def test_cut_refuses_an_empty_changelog(tree: Path) -> None:
    release.cut("0.2.0", tree)
    with pytest.raises(release.ReleaseFailed, match="nothing to release"):
        release.cut("0.3.0", tree)


def test_tag_has_the_notes_of_its_version_and_is_not_pushed(tree: Path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.com")
    with pytest.raises(release.ReleaseFailed, match="has no section"):
        release.tag(tree)
    release.cut("0.2.0", tree)
    git("add", ".")
    git("commit", "--quiet", "--message", "Release 0.2.0")
    assert release.tag(tree) == "v0.2.0"
    assert git("tag", "--list", "--format=%(contents)").strip() == "v0.2.0\n\n- A change."


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = (ROOT / "deploy/helm/postern/Chart.yaml").read_text()
    assert re.findall(r'^(?:version|appVersion): "?([^"\n]+)"?$', chart, re.MULTILINE) == [release.version()] * 2


@pytest.mark.parametrize(
    "licence",
    [
        *("MIT", "MIT License", "Apache-2.0", "Apache-2.0 OR BSD-3-Clause", "BSD License; Apache Software License"),
        *("MIT AND PSF-2.0", "GPL-3.0 OR MIT", "GNU Lesser General Public License v2 or later (LGPLv2+)", "LGPLv3+"),
    ],
)
def test_permissive_licences_are_allowed(licence: str) -> None:
    assert release.is_allowed(licence)


@pytest.mark.parametrize(
    "licence",
    ["GPL-3.0-only", "UNKNOWN", "MIT AND AGPL-3.0", "MIT; GNU General Public License v3", "SSPL-1.0", "LIMITED"],
)
def test_attack_other_licences_are_not_allowed(licence: str) -> None:
    assert not release.is_allowed(licence)


def test_source_package_has_no_trace_of_its_builder(tmp_path: Path) -> None:
    def package(name: str, order: list[str], **attributes: object) -> bytes:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as files:
            for entry in order:
                info = tarfile.TarInfo(entry)
                info.size = len(entry)
                for attribute, value in attributes.items():
                    setattr(info, attribute, value)
                files.addfile(info, io.BytesIO(entry.encode()))
        path = tmp_path / name
        path.write_bytes(content.getvalue())
        release.normalise(path, 1_700_000_000)
        return path.read_bytes()

    first = package("first", ["p/a", "p/b"], mtime=1, uid=1000, uname="ann", mode=0o644)
    second = package("second", ["p/b", "p/a"], mtime=2, uid=0, uname="root", mode=0o664)
    assert first == second
    assert b"ann" not in gzip.decompress(first)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm, which lists the packages of the web application")
@pytest.mark.skipif(find_spec("auditwheel") is None, reason="the release tools are not installed (make drivers)")
def test_the_same_commit_gives_the_same_bytes(tmp_path: Path) -> None:
    """Built twice, in folders of their own; the web application is built once, since that takes minutes."""
    for name in ("first", "second"):
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "release.py", "build", "--reuse-web", "--output", tmp_path / name],
            check=True,
        )
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    version = release.version()
    assert f"postern-{version}-py3-none-any.whl" in first
    assert [name for name in first if re.fullmatch(rf"postern-{version}-cp\d+-cp\d+-manylinux.*\.whl", name)]
    assert b"prometheus_client" in first[f"postern-{version}.cdx.json"]
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "first", check=False)
    assert done.returncode == 0
