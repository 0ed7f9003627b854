"""Writes the types of the web application's API client, from the API's own OpenAPI document."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # the sources beside this script, whatever is installed

from postern.api.application import make_application  # noqa: E402

WEB = ROOT / "web"
TYPES = WEB / "src" / "api" / "schema.d.ts"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "openapi.json"
        document.write_text(json.dumps(make_application().openapi(), sort_keys=True))
        program = WEB / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
        subprocess.run(["node", program, document, "-o", TYPES], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
