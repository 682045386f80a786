"""A share of the fuzzing that `make evidence` does in full."""

from pathlib import Path

import numpy as np
import pytest

from fuzzing import is_stronger, mutant
from memory import forget_peak, peak_memory
from ndis import GaussianMechanism, Guarantee, PrivateProjection, Profile, QuadraticLoss, Release
from ndis.cli import main
from ndis.cli.console import ExitCode
from ndis.mechanisms.multiparty import Agreement, release_party

FILES = 150
ALLOWED = (ExitCode.DONE, ExitCode.CHECK_FAILED, ExitCode.WRONG_CALL, ExitCode.NOT_CHECKABLE)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("corpus")
    rows = np.random.default_rng(0).random((50, 3))
    agreement = Agreement(50, {"a": {"x0": (0, 1), "x1": (0, 1)}}, epsilon=1.0, delta=1e-6, seed=1)
    loss = Profile.both(QuadraticLoss.from_leverage(0.1, 20))
    made = [
        GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).release(rows),
        PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=9)
        .fit(rows)
        .release_,
        release_party(agreement, "a", rows[:, :2]),
        Release(rows, Guarantee(0.1, 1e-9, "edge", "refuted", loss, note="A note."), "Unknown"),
    ]
    paths = [release.save(folder / f"{n}.npz") for n, release in enumerate(made)]
    return [path.read_bytes() for path in paths]


@pytest.mark.slow
def test_no_mutant_is_believed_or_brings_it_to_fall(
    corpus: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, codes = tmp_path / "mutant.npz", []
    forget_peak()
    before = peak_memory()
    for seed in range(FILES):
        original, content = mutant(corpus, seed)
        path.write_bytes(content)
        with pytest.raises(SystemExit) as leaving:
            main(["verify", str(path)])
        printed = capsys.readouterr()
        codes.append(leaving.value.code)
        assert codes[-1] in ALLOWED, (seed, printed.err)
        assert "\x1b" not in printed.out + printed.err, seed
        if codes[-1] == ExitCode.DONE and content != original:
            assert not is_stronger(path, original), seed
    assert set(codes) == set(ALLOWED)  # the mutants are no mere noise
    assert peak_memory() - before < 500
