"""When the web application is built, and what happens where it cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scripts import build_web


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources and built files of the test's own, and no Node on the PATH."""
    source, built = tmp_path / "web", tmp_path / "dist"
    (source / "src").mkdir(parents=True)
    (source / "src" / "main.tsx").write_text("let a")
    (source / "package-lock.json").write_text("{}")
    built.mkdir()
    for name, path in {"SOURCE": source, "BUILT": built, "STAMP": built / ".sources"}.items():
        monkeypatch.setattr(build_web, name, path)
    monkeypatch.setattr(build_web, "INSTALLED", source / "node_modules" / ".installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("POSTERN_WEB", raising=False)
    return source


def test_node_is_required_only_where_there_is_something_to_build_and_no_node(sources: Path) -> None:
    assert build_web.requirements() == [build_web.NODE_WHEEL]
    build_web.STAMP.write_text(build_web.source_hash())
    assert build_web.requirements() == []


def test_what_was_built_from_other_sources_is_not_current(sources: Path) -> None:
    build_web.STAMP.write_text(build_web.source_hash())
    assert build_web.is_current()
    (sources / "src" / "main.tsx").write_text("let b")
    assert not build_web.is_current()


def test_packages_and_generated_types_are_no_sources(sources: Path) -> None:
    before = build_web.source_hash()
    for path in (sources / "node_modules" / "react.js", sources / "src" / "schema.d.ts"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("other")
    assert build_web.source_hash() == before


def test_source_package_without_sources_has_what_was_built(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_web, "SOURCE", sources / "missing")
    build_web.build()
    assert build_web.requirements() == []


def test_without_node_the_gateway_is_installed_without_the_application(
    sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (build_web.BUILT / "index.html").write_text("an older version")
    build_web.build()
    assert not build_web.BUILT.exists()
    assert "Installing without the web application, which could not be built: npm was not found" in (
        capsys.readouterr().err
    )


def test_an_application_that_must_be_built_fails_the_installation(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTERN_WEB", "1")
    with pytest.raises(build_web.BuildFailed, match="npm was not found; install Node"):
        build_web.build()


def test_an_application_that_is_left_out_is_removed(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTERN_WEB", "0")
    build_web.build()
    assert not build_web.BUILT.exists()
    assert build_web.requirements() == []


def test_unknown_mode_is_named(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTERN_WEB", "yes")
    with pytest.raises(build_web.BuildFailed, match="POSTERN_WEB='yes': use auto, 0"):
        build_web.build()


def test_tools_for_development_are_not_removed_by_a_build(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(build_web, "_run", lambda *command: calls.append(command))
    build_web.INSTALLED.parent.mkdir()
    build_web.install(development=True)
    build_web.install(development=False)
    assert calls == [("npm", "ci", "--ignore-scripts")]
    (sources / "package-lock.json").write_text('{"new": 1}')
    build_web.install(development=False)
    assert calls[1:] == [("npm", "ci", "--ignore-scripts", "--omit=dev")]


def test_failed_command_is_a_failed_build(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTERN_WEB", "1")

    def fail(*command: str) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(build_web, "_run", fail)
    with pytest.raises(build_web.BuildFailed, match="non-zero exit status"):
        build_web.build()
