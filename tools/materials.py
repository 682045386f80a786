"""The bill of materials of a distribution (CycloneDX 1.6): what the lock installs for it.

``python tools/materials.py ndis-papers`` prints one. The lock says below each package who asked
for it; what nobody needs for this distribution (what builds it, for instance) is left out.
"""

import json
import re
import sys
import tomllib
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDERS = {"ndis": ROOT, "ndis-papers": ROOT / "papers"}
_ENTRY = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)(.*\n(?:    .*\n)*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ASKED = re.compile(r"^    #(?: via|  ) (?:-r )?(\S+)", re.MULTILINE)

Lock = dict[str, dict[str, list[str]]]  # the hashes of each version of each package


def project(name: str) -> dict[str, Any]:
    """Return what one of our distributions declares."""
    return dict(tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text())["project"])


def read(lock: str) -> tuple[Lock, dict[str, set[str]]]:
    """Return the packages of a lock, and which of them each one asks for."""
    packages: Lock = defaultdict(dict)
    asks: dict[str, set[str]] = defaultdict(set)
    for name, version, rest in _ENTRY.findall(lock):
        packages[name][version] = _HASH.findall(rest)
        for asker in _ASKED.findall(rest):
            asks["ndis-papers" if asker == "requirements/papers.in" else asker].add(name)
    asks["ndis-papers"].add("ndis")  # which no lock can pin
    packages["ndis"][project("ndis")["version"]] = []
    return packages, asks


def needed(name: str, asks: dict[str, set[str]]) -> set[str]:
    """Return everything that is installed because of one package."""
    found: set[str] = set()
    todo = {name}
    while todo:
        todo = {child for each in todo for child in asks.get(each, ())} - found
        found |= todo
    return found


def component(name: str, version: str, **more: Any) -> dict[str, Any]:
    """Return what CycloneDX says about one package."""
    purl = f"pkg:pypi/{name}@{version}"
    about = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**about, **more}


def bill(name: str, lock: str) -> dict[str, Any]:
    """Return the bill of one of our distributions."""
    ours = project(name)
    root = component(name, ours["version"], licenses=[{"expression": ours["license"]}])
    packages, asks = read(lock)
    parts = {
        each: [
            # One hash for each file of the registry; the machine decides which one is installed.
            component(each, version, properties=[{"name": "sha256", "value": h} for h in hashes])
            for version, hashes in sorted(packages[each].items())
        ]
        for each in sorted(needed(name, asks))
    }
    links = [
        {
            "ref": parent["bom-ref"],
            "dependsOn": [
                child["bom-ref"]
                for other in sorted(asks.get(parent["name"], ()))
                for child in parts[other]
            ],
        }
        for parent in [root, *(each for some in parts.values() for each in some)]
    ]
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [each for some in parts.values() for each in some],
        "dependencies": links,
    }
    # The same bill has the same number.
    return {
        **found,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found))}",
    }


def main(name: str) -> None:
    """Print the bill of a distribution."""
    print(json.dumps(bill(name, (ROOT / "requirements/run.txt").read_text()), indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
