"""``ndis show``, over every kind of release."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from commands import PROMISE, RELEASES, call
from ndis import Release
from ndis.cli.console import ExitCode
from ndis.cli.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_releases_shows_and_verifies(capsys, folder: Path, kind: str) -> None:
    code, out, err = call(
        capsys, "release", kind, *RELEASES[kind], *PROMISE, "--out", "r.npz", "--json"
    )
    assert code == ExitCode.DONE, err
    assert err.startswith("ndis: columns read: ")
    answer = json.loads(out)
    release = Release.load("r.npz")
    assert answer["digest"] == release.digest
    assert answer["guarantee"] == release.guarantee.to_dict()
    for name, array in release.arrays.items():
        np.testing.assert_array_equal(np.array(answer["values"][name]), array)
    code, out, _ = call(capsys, "show", "r.npz")
    assert code == ExitCode.DONE
    if KINDS[kind].source == "table":  # more than the arrays: what they mean, by name
        assert set(answer["values"]) > set(release.arrays)
    assert str(release.guarantee) in out
    code, out, _ = call(capsys, "show", "r.npz", "--csv")
    assert code == ExitCode.DONE
    assert len(list(csv.reader(io.StringIO(out)))) > 1
    for form, mark in (("--markdown", "| --- |"), ("--html", "<table>")):
        code, out, _ = call(capsys, "show", "r.npz", form)
        assert code == ExitCode.DONE
        assert mark in out or "see --csv" in out
    code, out, _ = call(capsys, "show", "r.npz", "--json")
    assert json.loads(out)["certificate"] == release.certificate()
    code, out, _ = call(capsys, "verify", "r.npz")
    assert code in (ExitCode.DONE, ExitCode.NOT_CHECKABLE)
