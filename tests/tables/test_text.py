"""Text is read as declared, value by value, and what is written otherwise is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ndis import PrivateCovariance
from ndis.tables import Table
from ndis.tables.text import TextFormat, parsed, parsed_numbers
from ndis.tables.values import EITHER, NUMBER
from reading import opened

GERMAN = TextFormat(decimal=",", thousands=".", units=["EUR", "%"], dates={"day": "%d.%m.%Y"})


def read(
    cells: list[str], written: TextFormat = GERMAN, name: str = "x", kind: Any = EITHER
) -> Any:
    batch = pa.RecordBatch.from_pydict({name: pa.array(cells, pa.string())})
    return parsed(batch, {name: kind}, written)[name].to_pylist()


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("6.171,34", 6171.34),
        ("6.171,34 EUR", 6171.34),
        ("EUR 6.171,34", 6171.34),
        ("-12,5 %", -12.5),
        ("1.234.567", 1234567.0),
        (" 12 ", 12.0),
        (",5", 0.5),
        ("1,5e3", 1500.0),
        ("2024-12-31", 20088.0),
        ("true", 1.0),
    ],
)
def test_numbers_with_commas_marks_and_units(cell: str, number: float) -> None:
    assert read([cell]) == [number]
    assert read(["1,5", cell, "NA"])[1] == number


@pytest.mark.parametrize("cell", ["6.17", "1.5", "12.34,5", "1,234,567", "5 USD", "EUR", "1.2345"])
def test_what_is_written_in_no_declared_way_is_refused(cell: str) -> None:
    """1.5 with a decimal comma is no number: whether it is 1.5 or 15 nobody knows."""
    for cells in ([cell], ["1,5", cell]):
        with pytest.raises(ValueError, match="Column 'x' holds text, not numbers"):
            read(cells)


def test_each_of_many_values_is_read_by_itself() -> None:
    rng = np.random.default_rng(5)
    doubles = np.round(np.exp(rng.uniform(-3, 14, 10_000)) * rng.choice([-1, 1], 10_000), 2)
    plain = [f"{value:,.2f}" for value in doubles]
    marked = [text.translate(str.maketrans(",.", ".,")) for text in plain]
    units = rng.choice(["", " EUR", "%", "EUR"], 10_000)
    cells = [text + unit for text, unit in zip(marked, units, strict=True)]
    assert read(cells) == [float(text.replace(",", "")) for text in plain]
    assert [read([cell])[0] for cell in cells[:50]] == read(cells)[:50]


def test_a_space_between_thousands() -> None:
    french = TextFormat(decimal=",", thousands="\u202f", units=["€"])
    assert read(["6\u202f171,34 €"], french) == [6171.34]


@pytest.mark.parametrize(
    ("cell", "day"), [("31.12.2024", 20088.0), ("1.2.2024", 19754.0), ("01.02.2024", 19754.0)]
)
def test_dates_in_a_declared_format(cell: str, day: float) -> None:
    assert read([cell, "NA", ""], name="day") == [day, None, None]


@pytest.mark.parametrize(
    "cell", ["31.02.2024", "31.12.24", "12/31/2024", "2024-12-31", "x", "1.2."]
)
def test_dates_in_another_format_are_refused(cell: str) -> None:
    with pytest.raises(ValueError, match="Column 'day' holds text, not numbers"):
        read(["31.12.2024", cell], name="day")


def test_what_is_declared_reads_plain_numbers_as_without() -> None:
    """Units alone change nothing about numbers that have none."""
    cells = ["1.5", "-2e3", "7", "NaN", " 4", "2020-01-01", "false"]
    one, other = (
        parsed_numbers(pa.array(cells), written).to_numpy(zero_copy_only=False)
        for written in (TextFormat(), TextFormat(units=["kg"]))
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decimal": ";"}, "a point or a comma, got ';'"),
        ({"decimal": ",", "thousands": ","}, "other than the decimal one, got ','"),
        ({"thousands": ".,"}, "one mark"),
        ({"units": "EUR"}, "list of words"),
        ({"units": ["m2"]}, "without digits"),
        ({"dates": {"day": "%d %B"}}, "a day, a month and a year, got '%d %B'"),
    ],
)
def test_bad_formats(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextFormat(**arguments)


# -- from a file -----------------------------------------------------------------------------------

UGLY = """ward;cost;day
A;1.000,50 EUR;01.02.2020
NA;2.000 EUR;02.02.2020
B;;03.02.2020
;5,25;04.02.2020
B;6,75 EUR;05.02.2020
"""
WRITTEN: dict[str, Any] = {
    "delimiter": ";",
    "decimal": ",",
    "thousands": ".",
    "units": ["EUR"],
    "dates": {"day": "%d.%m.%Y"},
}


def table(folder: Path, levels: list[str], **more: Any) -> Table:
    (folder / "ugly.csv").write_text(UGLY)
    limits = {"cost": (0.0, 10_000.0), "day": ("2020-01-01", "2020-12-31")}
    return opened(
        folder / "ugly.csv",
        ["ward", "cost", "day"],
        norm=None,
        limits=limits,
        levels={"ward": levels},
        **{**WRITTEN, **more},
    )


def test_gaps_in_text_are_gaps(tmp_path: Path) -> None:
    """They were rows of the level that is left out, and nobody was told."""
    with pytest.raises(ValueError, match="Column 'ward' has missing"):
        table(tmp_path, ["A"]).sum(lambda block: {})
    whole = table(tmp_path, ["A"], drop_missing=True)
    assert whole.moments["count"].value == 2
    # A level that is called like a gap is a level.
    assert table(tmp_path, ["A", "NA"], drop_missing=True).moments["count"].value == 3


def test_limits_that_are_numbers_take_no_dates(tmp_path: Path) -> None:
    """2015:2024 on dates were days after 1970, and every row was clipped to one of them."""
    typed = pa.table({"day": pa.array([18_300, 18_301], pa.date32())})
    (tmp_path / "t.csv").write_text("day\n2020-02-07\n2020-02-08\n")
    pandas = pytest.importorskip("pandas")
    objects = pandas.DataFrame({"day": pandas.Series(typed["day"].to_pylist(), dtype=object)})
    for source in (typed, tmp_path / "t.csv", objects):
        with pytest.raises(ValueError, match=r"Column 'day' holds dates, .* write them as dates"):
            opened(source, ["day"], norm=None, limits={"day": (2015, 2024)}).sum(lambda block: {})
    declared = {"dates": {"day": "%Y-%m-%d"}}
    with pytest.raises(ValueError, match="Column 'day' holds dates"):
        opened(
            tmp_path / "t.csv", ["day"], norm=None, limits={"day": (2015, 2024)}, **declared
        ).sum(lambda block: {})
    assert read(["2020"], kind=NUMBER) == [2020.0]


def test_limits_that_are_found_keep_the_kind_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day\n" + "2020-02-07\n" * 50)
    for limits in ("private", {"day": ("2015-01-01", "2024-12-31")}):
        model = PrivateCovariance(
            epsilon=5.0, delta=1e-6, limits=limits, columns=["day"], random_state=0
        )
        assert model.fit(tmp_path / "t.csv").release_ is not None
