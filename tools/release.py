"""Build what a release uploads, twice, and refuse if the bytes differ.

``python tools/release.py --address https://github.com/OWNER/ndis --out dist`` builds source
distribution and wheel of ``ndis`` and ``ndis-papers`` from the last commit, so that nothing
uncommitted is released, and writes the bill of materials of each to ``dist/sbom``. The address is
written into ``[project.urls]`` and before the relative links of both READMEs, which a registry
shows without the repository. ``--tag v0.1.0`` also asks whether the commit is ready for it.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {"ndis": ".", "ndis-papers": "papers"}
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|#|mailto:)([^)\s]+)\)")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def absolute(text: str, address: str, version: str, folder: str = ".") -> str:
    """Return a page whose links are absolute: pictures to the file, others to its page.

    Examples
    --------
    >>> absolute("![A](a.png) [b](b.md)", "https://example.org/x", "1.0")
    '![A](https://example.org/x/raw/v1.0/a.png) [b](https://example.org/x/blob/v1.0/b.md)'
    """

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[1].startswith("!") else "blob"
        path = os.path.normpath(os.path.join(folder, found[2]))
        return f"{found[1]}{address}/{kind}/v{version}/{path})"

    return _LINK.sub(link, text)


def urls(address: str, version: str) -> str:
    """Return the table of a pyproject.toml that says where things are."""
    places = {
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/v{version}/CHANGELOG.md",
        "Security": f"{address}/blob/v{version}/SECURITY.md",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{at}"\n' for name, at in places.items())


def version() -> str:
    """Return the version of both distributions."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def sources(place: Path, address: str) -> None:
    """Write the last commit to a folder, as it is released."""
    with tarfile.open(fileobj=BytesIO(_git("archive", "HEAD"))) as archive:
        archive.extractall(place, filter="data")
    for folder in FOLDERS.values():
        page, project = place / folder / "README.md", place / folder / "pyproject.toml"
        page.write_text(absolute(page.read_text(), address, version(), folder))
        project.write_text(project.read_text() + urls(address, version()))


def build(out: Path, address: str) -> dict[str, str]:
    """Build both distributions; return the digests of the files."""
    moment = _git("log", "-1", "--format=%ct").decode().strip()
    with tempfile.TemporaryDirectory() as place:
        sources(Path(place), address)
        for folder in FOLDERS.values():
            command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out.resolve()]
            environment = os.environ | {"SOURCE_DATE_EPOCH": moment}
            subprocess.run(
                [*command, folder],
                cwd=place,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.iterdir())
        if path.is_file()
    }


def ready(tag: str) -> None:
    """Refuse a tag that the files do not speak of."""
    if tag != f"v{version()}":
        sys.exit(f"Expected the tag v{version()}, got {tag}; correct it, or pyproject.toml.")
    heading = rf"^## \[?{re.escape(version())}\b"
    if not re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        sys.exit(f"Expected a section {version()} in CHANGELOG.md; rename the unreleased one.")


def main() -> None:
    """Build twice, compare, and add the bills."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--address", required=True, help="where the repository is: https://...")
    parser.add_argument("--out", type=Path, required=True, help="an empty or new folder")
    parser.add_argument("--tag", help="the tag that is to be released")
    asked = parser.parse_args()
    if asked.tag:
        ready(asked.tag)
    asked.out.mkdir(parents=True, exist_ok=True)
    if any(asked.out.iterdir()):
        sys.exit(f"Expected an empty folder, got {asked.out}; remove what is in it.")
    first = build(asked.out, asked.address)
    with tempfile.TemporaryDirectory() as again:
        second = build(Path(again), asked.address)
    if first != second:
        sys.exit(f"Two builds of one commit differ: {first} and {second}.")
    (asked.out / "sbom").mkdir()
    for name in FOLDERS:
        bill = subprocess.run(
            [sys.executable, ROOT / "tools/materials.py", name], check=True, capture_output=True
        )
        (asked.out / f"sbom/{name}.cdx.json").write_bytes(bill.stdout)
    print("\n".join(f"{digest}  {name}" for name, digest in first.items()))
    print("Two builds of this commit have the same bytes.")


if __name__ == "__main__":
    main()
