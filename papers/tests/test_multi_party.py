"""The experiments of the multi-party paper, and loaders on small files of the published shapes."""

import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ndis import MultiPartyRegression
from ndis_papers.parties import PublishedParties, signed_sums
from ndis_papers.reproduce import multi_party
from ndis_papers.reproduce.data import YEAR_PREDICTION, OfficialFile

BIKE = (
    "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,"
    "windspeed,casual,registered,cnt"
)
GPU = "MWG,NWG,KWG,MDIMC,NDIMC,MDIMA,NDIMB,KWI,VWM,VWN,STRM,STRN,SA,SB"


def numbers(n_rows: int, n_columns: int) -> list[str]:
    table = np.random.default_rng(0).integers(0, 50, (n_rows, n_columns))
    return [",".join(map(str, row)) for row in table]


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def short(official: OfficialFile, rows: int) -> OfficialFile:
    """The official file, so many rows of it."""
    return replace(official, rows=rows)


@pytest.mark.parametrize("name", multi_party.READERS)
def test_a_file_of_another_shape_is_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "other.csv", "age,bmi", *numbers(3, 2))
    with pytest.raises(ValueError, match=r"columns, got \d and 2 in .*; download it again"):
        multi_party.READERS[name](path)


def test_insurance(tmp_path: Path) -> None:
    path = write(
        tmp_path / "insurance.csv",
        "age,sex,bmi,children,smoker,region,charges",
        "19,female,27.9,0,yes,southwest,16884.924",
        "18,male,33.77,1,no,southeast,1725.5523",
        "28,male,33,3,no,northwest,4449.462",
        "33,female,22.705,0,no,northeast,21984.47061",
    )
    problem = multi_party.read_insurance(path, short(multi_party.INSURANCE, 4))
    assert (problem.table.shape, problem.n_parties) == ((4, 10), 5)
    assert problem.table[:, 3].tolist() == [0, 1, 1, 0]
    assert problem.table[:, 5:9].tolist() == np.eye(4)[[3, 2, 1, 0]].tolist()
    assert problem.table[:, -1].argmax() == 3


def test_bike(tmp_path: Path) -> None:
    rows = (f"{i},2011-01-0{i + 1},{line}" for i, line in enumerate(numbers(9, 15)))
    path = write(tmp_path / "hour.csv", BIKE, *rows)
    problem = multi_party.read_bike(path, short(multi_party.BIKE, 9))
    assert (problem.table.shape, problem.n_parties) == ((9, 14), 5)


def test_superconductor(tmp_path: Path) -> None:
    header = ",".join([*(f"f{i}" for i in range(81)), "critical_temp"])
    path = write(tmp_path / "train.csv", header, *numbers(12, 82))
    problem = multi_party.read_superconductor(path, short(multi_party.SUPERCONDUCTOR, 12))
    assert (problem.table.shape, problem.n_parties) == ((12, 82), 10)


def test_gpu(tmp_path: Path) -> None:
    header = ",".join([GPU, *(f"Run{i} (ms)" for i in range(1, 5))])
    path = write(tmp_path / "sgemm.csv", header, *numbers(12, 18))
    problem = multi_party.read_gpu(path, short(multi_party.GPU, 12))
    assert (problem.table.shape, problem.n_parties) == ((12, 15), 5)
    runs = np.array([line.split(",")[14:] for line in numbers(12, 18)], dtype=float).mean(axis=1)
    assert problem.table[:, -1] == pytest.approx((runs - runs.min()) / np.ptp(runs))


def test_songs_have_no_header_and_the_year_first(tmp_path: Path) -> None:
    lines = numbers(12, 91)
    path = write(tmp_path / "YearPredictionMSD.txt", *lines)
    problem = multi_party.read_songs(path, short(YEAR_PREDICTION, 12))
    assert (problem.table.shape, problem.n_parties) == ((12, 91), 10)
    years = np.array([int(line.split(",")[0]) for line in lines])
    assert problem.table[:, -1] == pytest.approx((years - years.min()) / np.ptp(years))


def test_flights_skip_cancelled_ones(tmp_path: Path) -> None:
    names = "month,day,dep_delay,arr_delay,carrier,air_time,distance,hour"
    lines = ["1,2,3,4,UA,5,6,7", "2,1,,,UA,5,6,7", "3,4,1,9,AA,8,7,5"]
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join([names, *lines]))
    problem = multi_party.read_flights(path)
    assert problem.table.tolist() == [[0, 0, 1, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1, 1]]
    clipped = multi_party.read_flights(path, longest=3.5)
    assert clipped.table.shape == (2, 6)  # both arrived later: a constant column


def test_constant_columns_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "any.csv", "a,b,y", "1,5,0", "3,5,1")
    assert multi_party.read_numbers(path).table.tolist() == [[0, 0], [1, 1]]


def test_table_1_of_a_table_with_a_mean() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (20_000, 4))
    problem = multi_party.Problem(np.column_stack([X, 0.3 + 0.1 * X.sum(axis=1)]), 5)
    rows = multi_party.table_1({"made": problem}, (1.0,), n_seeds=3, tried=(100,))
    (row,) = rows
    assert (row["n"], row["d"], row["m"]) == (16_000, 4, 5)
    assert row["ours"] <= row["rmgm"] <= row["rmgm_published"]
    assert row["ours"] < 1.5 * row["mean"]
    assert row["dgm"] > row["mean"]
    assert row["ols"] < 0.02
    assert multi_party.wins(rows) == 1.0


def test_figure_2_has_the_published_shape_and_ours_below() -> None:
    rows = multi_party.figure_2((100_000, 3_000_000), (1.0,), n_seeds=20)
    error = {(row["method"], row["n"]): row["median"] for row in rows}
    assert error["rmgm", 3_000_000] < error["rmgm", 100_000] / 3
    assert error["bgm", 3_000_000] == pytest.approx(error["bgm", 100_000], rel=0.2)
    assert error["dgm", 3_000_000] > 1.0
    for n in (100_000, 3_000_000):
        assert error["ours", n] < 0.8 * error["rmgm", n]


def agree(real: list[float], simulated: list[float]) -> bool:
    """Whether the means agree within four standard errors of their difference."""
    spread = np.hypot(np.std(real), np.std(simulated)) / np.sqrt(len(real))
    return bool(abs(np.mean(real) - np.mean(simulated)) < 4 * spread + 1e-3)


WEIGHTS = np.array([0.2, -0.1, 0.05, 0.15])


@pytest.mark.parametrize("method", ["rmgm", "bgm", "dgm"])
def test_the_limit_law_is_that_of_published_releases(method: str) -> None:
    # DGM has no mean error: the largest epsilon keeps its Hessian away from zero.
    parties = PublishedParties(method, 100.0 if method == "dgm" else 5.0, 1e-5, 10_000, widest=3)
    rng = np.random.default_rng(1)
    real, simulated = [], []
    for _ in range(40):
        X = rng.uniform(-1, 1, (10_000, 4))
        rows = parties.release(np.column_stack([X, X @ WEIGHTS]), rng)
        real.append(float(np.linalg.norm(parties.coefficients(rows) - WEIGHTS)))
        rows = multi_party.synthetic_rows(parties, WEIGHTS, rng)
        simulated.append(float(np.linalg.norm(parties.coefficients(rows) - WEIGHTS)))
    assert agree(real, simulated)
    assert not agree([3 * value for value in real], simulated)


@pytest.mark.slow
def test_the_limit_law_is_that_of_our_releases() -> None:
    n, names = 10_000, [f"x{i}" for i in range(4)]
    model = MultiPartyRegression(epsilon=5.0, delta=1e-5)
    agreement = model.agreement(n, names, seed=0)
    rng = np.random.default_rng(1)
    real, simulated = [], []
    for seed in range(40):
        X = rng.uniform(-1, 1, (n, 4))
        fitted = model.set_params(random_state=seed).fit(X, X @ WEIGHTS)
        real.append(float(np.linalg.norm(fitted.coef_ - WEIGHTS)))
        release = multi_party.synthetic_release(agreement, WEIGHTS, rng)
        coef = multi_party.train(release, "y").coef
        simulated.append(float(np.linalg.norm(coef - WEIGHTS)))
    assert agree(real, simulated)


@pytest.mark.slow
def test_run_writes_rows_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = multi_party.stand_in
    lines = enumerate(numbers(multi_party.BIKE.rows, 15))
    path = write(tmp_path / "hour.csv", BIKE, *(f"{i},x,{line}" for i, line in lines))
    monkeypatch.setattr(multi_party, "SIZES", (10_000, 30_000, 100_000))
    monkeypatch.setattr(multi_party, "EPSILONS", (1.0,))
    monkeypatch.setattr(multi_party, "stand_in", lambda name, most: stand_in(name, 200))
    results = multi_party.run(tmp_path / "out", {"bike": path}, quick=True)
    data = {row["set"]: row["data"] for row in results["table_1"]}
    assert data["bike"] == "bike"
    assert data["gpu"] == "stand-in for gpu (made up, 200 of 193,280 rows)"
    printed = {row["set"]: row["published_rmgm"] for row in results["table_1"]}
    assert printed["songs"] == 0.0202
    for name in ("figure_2", "figure_3"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    # Small eigenvalues go with large errors: figure 3 of the paper.
    dgm = [row for row in results["figure_3"] if row["method"] == "dgm"]
    worst = max(dgm, key=lambda row: row["error"])
    assert worst["least_eigenvalue"] < np.median([row["least_eigenvalue"] for row in dgm])


@pytest.mark.parametrize("name", multi_party.SHAPES)
def test_in_a_stand_in_least_squares_beats_the_mean_label(name: str) -> None:
    problem = multi_party.stand_in(name, 2_000)
    X, y = problem.table[:, :-1], problem.table[:, -1]
    found = float(np.mean((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2))
    n, d, _, printed = multi_party.SHAPES[name]
    assert X.shape[1] == d
    assert found == pytest.approx(printed, rel=0.1)
    assert 1 - found / y.var() == pytest.approx(multi_party.EXPLAINED[name], abs=0.05)
    assert ("of" in problem.name.split("rows")[0]) == (n > 2_000)


def test_a_full_stand_in_has_as_many_rows_as_the_published_set() -> None:
    problem = multi_party.stand_in("superconductor", None)
    n, d, m, _ = multi_party.SHAPES["superconductor"]
    assert problem.table.shape == (n * 5 // 4, d + 1)
    assert problem.n_parties == m
    assert problem.name == "stand-in for superconductor (made up)"


def test_mixed_rows_may_be_known_beforehand() -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (50, 3))
    parties = PublishedParties("rmgm", 1e6, 1e-5, 50, widest=1, n_components=20)
    sums = signed_sums(table, 20, np.random.default_rng(1))
    given = parties.release(table, np.random.default_rng(2), sums)
    assert np.allclose(given, sums / math.sqrt(20), atol=1e-3)
