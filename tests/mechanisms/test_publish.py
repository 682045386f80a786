"""Budget is paid only for what will be released, and what was paid for is never lost."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from disks import fill, full_beyond, room_again
from ndis import (
    BudgetExceeded,
    GaussianMechanism,
    GaussianOutput,
    Guarantee,
    Ledger,
    MatrixGaussianMechanism,
    PrivateCovariance,
    PrivateGraph,
    PrivateLeastSquares,
    PrivateProjection,
    Profile,
    QuadraticLoss,
    Release,
)
from ndis.mechanisms.publish import publish
from ndis.release import NewFile

PROMISE = Guarantee(1.0, 0.2, "add-remove", "proven", Profile.both(QuadraticLoss.from_shift(0.5)))
ROWS = np.random.default_rng(0).random((50, 3))
MISSING = np.where(np.arange(150).reshape(50, 3) == 100, np.nan, ROWS)
SETTINGS = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.create(tmp_path / "budget", 5.0, 1e-3, "add-remove") as opened:
        yield opened


def one(draw: Callable[[Any], Any] = lambda rng: 1.5, **changes: Any) -> Release:
    settings = {"parameters": {}, "shapes": {"value": ()}, **changes}
    return publish(draw, PROMISE, "example", **settings)


# --- What is wrong is found before the payment -------------------------------------------------


def projection(**changes: Any) -> PrivateProjection:
    return PrivateProjection(**{**SETTINGS, "data_norm": 1.0, "n_components": 20, **changes})


def regression(**changes: Any) -> PrivateLeastSquares:
    given = {"data_norm": 1.0, "label_bound": 1.0, "fit_intercept": False, **changes}
    return PrivateLeastSquares(**SETTINGS, **given)


LABEL_ONLY = pa.table({"y": ROWS[:, 0]})
WRONG: dict[str, Callable[[Ledger], Any]] = {
    "absurd sketch": lambda book: projection(n_components=10**12, ledger=book).fit(ROWS),
    "absurd covariance": lambda book: PrivateCovariance(
        **SETTINGS, method="sketch", data_norm=1.0, n_components=10**12, ledger=book
    ).fit(ROWS),
    "no matrix": lambda book: MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-6, sensitivity=1.0, ledger=book
    ).release([1.0]),
    "a cube": lambda book: MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-6, sensitivity=1.0, ledger=book
    ).release(np.ones((2, 2, 2))),
    "no answer": lambda book: GaussianMechanism(
        epsilon=1.0, delta=1e-6, sensitivity=1.0, ledger=book
    ).release([]),
    "no answers": lambda book: PrivateGraph(
        3, **SETTINGS, method="answers", sets=[], ledger=book
    ).fit(sparse.csr_array((3, 3))),
    "no features, newton": lambda book: regression(ledger=book).fit(LABEL_ONLY, "y"),
    "no features, adassp": lambda book: regression(method="adassp", ledger=book).fit(
        LABEL_ONLY, "y"
    ),
    "no features, sketch": lambda book: regression(method="sketch", ledger=book).fit(
        LABEL_ONLY, "y"
    ),
    "absurd rounds": lambda book: regression(n_rounds=10**9, ledger=book).fit(ROWS, ROWS[:, 0]),
    "odd parameter": lambda book: one(parameters={"odd": object()}, ledger=book),
    "odd name": lambda book: one(parameters={"Odd name": 1}, ledger=book),
    "long certificate": lambda book: one(parameters={"text": "x" * 2**23}, ledger=book),
}


@pytest.mark.parametrize("case", WRONG)
def test_nothing_is_paid_for_what_cannot_be_released(ledger: Ledger, case: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"Expected|Column") as caught:
        WRONG[case](ledger)
    assert ledger.history() == []
    assert not hasattr(caught.value, "__notes__")


def test_numpy_numbers_cost_nothing_but_their_price(ledger: Ledger) -> None:
    projection(data_norm=np.float32(1), n_components=np.int64(20), ledger=ledger).fit(ROWS)
    regression(data_norm=np.float32(1), label_bound=np.int64(1), ledger=ledger).fit(
        ROWS, ROWS[:, 0]
    )
    assert [entry.digest is not None for entry in ledger.history()] == [True, True]


@pytest.mark.parametrize("name", ["nowhere/r.npz", "r.csv", "r", "taken.npz", "/proc/r.npz"])
def test_nothing_is_paid_without_a_file_to_write(ledger: Ledger, tmp_path: Path, name: str) -> None:
    (tmp_path / "taken.npz").touch()
    with pytest.raises((OSError, ValueError)), NewFile(tmp_path / name) as file:
        one(ledger=ledger, file=file)
    assert ledger.history() == []


def test_nothing_is_paid_on_a_full_disk(ledger: Ledger, tmp_path: Path) -> None:
    with (
        full_beyond(600),
        pytest.raises(OSError, match=r"r\.npz"),
        NewFile(tmp_path / "r.npz") as file,
    ):
        one(ledger=ledger, file=file)
    assert ledger.history() == []
    assert not list(tmp_path.glob("*.npz*"))


ASKING: dict[str, Callable[[Ledger, Any], Any]] = {
    "projection": lambda book, table: projection(ledger=book).fit(table),
    "covariance": lambda book, table: PrivateCovariance(**SETTINGS, data_norm=1.0, ledger=book).fit(
        table
    ),
    "posterior": lambda book, table: GaussianOutput(
        lambda data: 1 / 0,
        **SETTINGS,
        dimension=1,
        max_spread=1.0,
        mean_shift=lambda v: v**-0.5,
        rank=1,
        ledger=book,
    ).fit(table),
}


@pytest.mark.parametrize("case", ASKING)
def test_a_spent_budget_is_noticed_before_any_data_are_read(tmp_path: Path, case: str) -> None:
    with Ledger.create(tmp_path / "small", 0.01, 1e-9, "add-remove", accept=["declared"]) as book:
        with pytest.raises(BudgetExceeded):
            ASKING[case](book, MISSING)  # whoever read it would complain of it
        assert book.history() == []


QUIETER = {"matrix": 1e-4, "sums": 1e-4, "count": 1e-4}


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ({"epsilon": 2e6}, "2e\\+06"),
        ({"epsilon": None, "noise_scale": QUIETER}, r"\d\S*e\+\d+"),
    ],
)
def test_an_epsilon_beyond_every_certificate_is_refused_before_any_data_are_read(
    tmp_path: Path, asked: dict[str, Any], got: str
) -> None:
    with Ledger.create(tmp_path / "large", 1e9, 1e-3, "add-remove") as book:
        model = PrivateCovariance(**{**SETTINGS, **asked}, data_norm=1.0, ledger=book)
        with pytest.raises(ValueError, match=rf"Expected epsilon of at most 1000000, got {got};"):
            model.fit(MISSING)  # whoever read it would complain of it
        assert book.history() == []


def test_the_largest_epsilon_is_released_and_read_again(tmp_path: Path) -> None:
    model = PrivateCovariance(epsilon=1e6, delta=1e-6, data_norm=2.0).fit(ROWS)
    model.release_.save(tmp_path / "large.npz")
    assert Release.load(tmp_path / "large.npz").guarantee.epsilon == 1e6
    np.testing.assert_allclose(model.covariance_, np.cov(ROWS.T, bias=True), atol=1e-3)


def test_a_ledger_is_a_ledger() -> None:
    with pytest.raises(TypeError, match="Expected ledger to be a Ledger, got str"):
        one(ledger="budget.ndis")


# --- What was paid for is kept -----------------------------------------------------------------


def test_the_file_is_whole_before_the_ledger_hears_of_it(ledger: Ledger, tmp_path: Path) -> None:
    with NewFile(tmp_path / "r.npz") as file:
        made = one(ledger=ledger, file=file)
    assert file.written == tmp_path / "r.npz"
    assert Release.load(file.written).digest == made.digest == ledger.history()[0].digest


def test_the_space_is_taken_before_the_payment(ledger: Ledger, tmp_path: Path) -> None:
    sizes = []

    def draw(rng: Any) -> Any:
        sizes.extend(path.stat().st_size for path in tmp_path.glob(".r.npz.*"))
        return np.ones((50, 7))

    with NewFile(tmp_path / "r.npz") as file:
        one(draw, shapes={"value": (50, 7)}, ledger=ledger, file=file)
    assert sizes == [(tmp_path / "r.npz").stat().st_size]


def test_one_file_one_release(ledger: Ledger, tmp_path: Path) -> None:
    with NewFile(tmp_path / "r.npz") as file:
        one(ledger=ledger, file=file)
        with pytest.raises(ValueError, match="got a second"):
            one(ledger=ledger, file=file)
    assert len(ledger.history()) == 1
    assert (tmp_path / "r.npz").exists()


def fills_the_disk(rng: Any) -> float:
    fill()
    return 1.5


def test_a_release_outlives_the_ledgers_disk(ledger: Ledger) -> None:
    """The disk of the ledger is full when the digest is to be recorded."""
    with room_again(), pytest.warns(RuntimeWarning, match="Release 1 is paid and made, but"):
        made = one(fills_the_disk, ledger=ledger)
    assert made.value == 1.5
    assert [entry.digest for entry in ledger.history()] == [None]


def test_a_release_outlives_its_folder(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written elsewhere, for its owner alone, and the path is told."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def vanishes(rng: Any) -> float:
        shutil.rmtree(tmp_path / "gone")
        return 1.5

    with (
        pytest.warns(RuntimeWarning, match=r"could not .* is written to .*r-.*npz instead"),
        NewFile(tmp_path / "gone" / "r.npz") as file,
    ):
        made = one(vanishes, ledger=ledger, file=file)
    assert file.written is not None
    assert file.written.parent == tmp_path / "here"
    assert file.written.stat().st_mode & 0o777 == 0o600
    assert Release.load(file.written).digest == made.digest == ledger.history()[0].digest


def test_a_release_of_another_thread_is_written_too(tmp_path: Path) -> None:
    with NewFile(tmp_path / "r.npz") as file, ThreadPoolExecutor(1) as pool:
        made = pool.submit(one, file=file).result()
    assert Release.load(tmp_path / "r.npz").digest == made.digest


def test_a_release_outlives_its_own_disk(tmp_path: Path) -> None:
    """The space that was reserved is gone: the release is in memory, and the error says so."""
    made = []
    with (
        room_again(),
        pytest.raises(OSError, match="not be made again"),
        NewFile(tmp_path / "r.npz") as file,
    ):
        made.append(one(fills_the_disk, file=file))
    assert made[0].value == 1.5
    assert not list(tmp_path.glob("*.npz*"))


def test_an_error_after_the_payment_says_so(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        one(lambda rng: 1 / 0, ledger=ledger)
    assert caught.value.__notes__ == ["(release 1 is paid, nothing was written)"]
    with pytest.raises(RuntimeError, match="please report this fault"):
        one(lambda rng: [1.0, 2.0], ledger=ledger)


def interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupt_says_what_was_paid(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"^nothing was paid$"):
        one(interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"^release 1 is paid, nothing was written$"):
        one(interrupt, ledger=ledger)
    broken = Ledger(ledger.path)
    broken.spend = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt, match=r"^the ledger knows whether it was paid"):
        one(ledger=broken)
    broken = Ledger(ledger.path)
    broken.complete = interrupt  # type: ignore[method-assign]
    with (
        pytest.raises(KeyboardInterrupt, match=r"^the release is written to .*r\.npz$"),
        NewFile(tmp_path / "r.npz") as file,
    ):
        one(ledger=broken, file=file)
    assert Release.load(tmp_path / "r.npz").value == 1.5


@pytest.fixture
def heard() -> Iterator[None]:
    """A process that hears interrupts: those started in the background may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_after_the_payment_loses_no_release(ledger: Ledger, tmp_path: Path) -> None:
    def draw(rng: Any) -> float:
        signal.raise_signal(signal.SIGINT)
        return 1.5

    with pytest.warns(RuntimeWarning, match="is what the call returns"):
        assert one(draw, ledger=ledger).value == 1.5
    with (
        pytest.warns(RuntimeWarning, match="A signal came after the payment"),
        pytest.raises(KeyboardInterrupt, match=r"^the release is written to .*r\.npz$"),
        NewFile(tmp_path / "r.npz") as file,
    ):
        one(draw, ledger=ledger, file=file)
    with pytest.raises(KeyboardInterrupt, match="nothing was paid"):
        one(draw)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


KILLED = """
import sys, time
import numpy as np
from ndis import Guarantee
from ndis.mechanisms.publish import publish
from ndis.release import NewFile
def draw(rng):
    print("drawing", flush=True)
    time.sleep(60)
with NewFile(sys.argv[1]) as file:
    promise = Guarantee(1.0, 0.2, "edge", "proven")
    publish(draw, promise, "example", {}, {"value": (1000,)}, file=file)
"""


def test_a_killed_process_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "r.npz")],
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"drawing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".r.npz.")
    assert left.stat().st_mode & 0o777 == 0o600


# -- scikit-learn ------------------------------------------------------------------------------

TABLE = np.random.default_rng(0).uniform(-1, 1, (300, 3))


def least_squares(**more: object) -> PrivateLeastSquares:
    return PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2, label_limits=(-1, 1), **more
    )


def test_cross_validation_without_a_ledger_says_what_it_costs(tmp_path: Path) -> None:
    model, X, y = least_squares(), TABLE[:, :2], TABLE[:, 2]
    five = (5 * model.guarantee(2).loss).epsilon(1e-6)
    with pytest.warns(UserWarning, match=f"5 of them cost epsilon {five:.3g},.* pass a ledger"):
        cross_val_score(model, X, y, cv=2)
    with Ledger.create(tmp_path / "budget", 3.0, 1e-5, "add-remove") as ledger:
        cross_val_score(least_squares(ledger=ledger), X, y, cv=2)  # counted, so no warning
        assert len(ledger.history()) == 2
    model.fit(X, y)  # once, and no warning


def test_a_search_says_what_it_costs_also_in_other_processes() -> None:
    X, y = TABLE[:, :2], TABLE[:, 2]
    grid = {"privateleastsquares__epsilon": [0.5, 1.0]}
    with pytest.warns(UserWarning, match="Every fit of a copy is a release"):
        GridSearchCV(make_pipeline(least_squares()), grid, cv=2).fit(X, y)
    model = least_squares()
    copies = [clone(model) for _ in range(2)]
    with pytest.warns(UserWarning, match="Every fit of a copy is a release"):
        pickle.loads(pickle.dumps(copies[1])).fit(X, y)  # as joblib hands it on


def test_one_copy_is_no_search() -> None:
    X, y = TABLE[:, :2], TABLE[:, 2]
    clone(least_squares()).fit(X, y)
    clone(clone(least_squares())).fit(X, y)
    clone(make_pipeline(StandardScaler(), least_squares())).fit(X, y)
    model = make_pipeline(StandardScaler(), least_squares())
    model.fit(X, y).fit(X, y)


def test_a_certificate_of_an_array_says_that_preprocessing_is_not_covered() -> None:
    told = "Whatever was done to the array before is not covered."
    pipeline = make_pipeline(StandardScaler(), least_squares()).fit(TABLE[:, :2], TABLE[:, 2])
    assert told in str(pipeline[-1].release_.guarantee)
    frame = pa.table({"a": TABLE[:, 0], "b": TABLE[:, 1], "y": TABLE[:, 2]})
    limits = dict.fromkeys(frame.column_names, (-1, 1))
    named = PrivateLeastSquares(epsilon=1.0, delta=1e-6, limits=limits).fit(frame, "y")
    assert told not in str(named.release_.guarantee)
    declared = PrivateProjection(
        epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=5, leverage=0.9
    ).fit(TABLE)
    assert "The set: " in declared.guarantee_.note
    assert declared.guarantee_.note.endswith(told)
