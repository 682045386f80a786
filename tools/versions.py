"""Put the site of this version beside those of earlier ones. ``python tools/versions.py FOLDER``.

``FOLDER/0.1.0`` is the site, ``FOLDER/latest`` leads to the newest version, and so does the
folder itself. The names of all versions are in ``FOLDER/versions.json``, which the pages' own
menu of versions reads. A version that is there is replaced.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parent.parent


def versions(folder: Path) -> list[str]:
    """Return the versions that are in a folder, newest first."""
    found = [each.name for each in folder.iterdir() if (each / "index.html").is_file()]
    return sorted((name for name in found if name != "latest"), key=Version, reverse=True)


def lead(page: Path, to: str) -> None:
    """Write a page that leads to another."""
    page.parent.mkdir(exist_ok=True)
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>ndis</title>'
        f'<meta http-equiv="refresh" content="0; url={to}">'
        f'<a href="{to}">Documentation</a></html>\n'
    )


def index(folder: Path) -> None:
    """List the versions of a folder, and lead from it to the newest."""
    found = versions(folder)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == found[0] else []}
        for name in found
    ]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    lead(folder / "index.html", f"{found[0]}/index.html")
    lead(folder / "latest/index.html", f"../{found[0]}/index.html")


def main(place: str) -> None:
    """Build the site of this version, and list it."""
    folder = Path(place).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", folder / version],
        cwd=ROOT,
        check=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "NDIS_DOCS_VERSIONS": "mike"},
    )
    index(folder)
    print(f"The site of {version} is in {folder / version}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
