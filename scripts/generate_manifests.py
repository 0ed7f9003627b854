"""Writes deploy/kubernetes/*.yaml from the chart, for those who have no Helm. It needs `helm`, on the PATH or where
`scripts/install-services helm` puts it.

Each file names the hash of the chart that it was made from: a test compares it, and needs no Helm.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "postern"
MANIFESTS = ROOT / "deploy" / "kubernetes"
KUBERNETES = "1.34.0"  # without a cluster to ask, Helm assumes a version
# What each file is made with, beside the chart's defaults.
VALUES = {
    "gateway": [
        "gateway.publicHost=gateway.example.com",
        "gateway.secrets.existingSecret=postern-secrets",
        "gateway.secrets.keys={metrics_token}",
        "gateway.secrets.masterKeySecret=postern-master",
    ],
    "agent": ["gateway.enabled=false", "agent.enabled=true", "agent.existingSecret=postern-agent"],
}


def helm() -> str | None:
    """Return Helm's path; None if it is not installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tools"
    return shutil.which("helm", path=f"{os.environ.get('PATH', '')}:{cache}")


def render(*values: str, files: tuple[Path, ...] = ()) -> str:
    """Return what the chart makes of these values. Raises CalledProcessError."""
    program = helm()
    assert program is not None
    arguments = [part for value in values for part in ("--set", value)]
    arguments += [part for file in files for part in ("--values", str(file))]
    command = [program, "template", "postern", str(CHART), "--namespace", "postern"]
    command += ["--kube-version", KUBERNETES, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def chart_hash() -> str:
    """Return a hash of the chart's files and of the values."""
    digest = hashlib.sha256(repr(VALUES).encode())
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def heading(name: str) -> str:
    return (
        f"# Made by scripts/generate_manifests.py from deploy/helm/postern ({chart_hash()[:16]}); do not edit.\n"
        f"# Values: {', '.join(VALUES[name])}\n"
    )


def main() -> None:
    MANIFESTS.mkdir(exist_ok=True)
    for name, values in VALUES.items():
        text = re.sub(r"(?m)^ +$\n| +$", "", render(*values))
        text = text.replace("app.kubernetes.io/managed-by: Helm\n", "app.kubernetes.io/managed-by: kubectl\n")
        (MANIFESTS / f"{name}.yaml").write_text(heading(name) + text)


if __name__ == "__main__":
    main()
