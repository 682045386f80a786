"""What text may be meant for: told, never taken for granted."""

import shlex

import pyarrow as pa
import pytest

from ndis.cli.guesses import advice, date_formats
from ndis.tables.text import TextFormat


def told(written: TextFormat | None = None, **columns: list[str]) -> list[str]:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return [sentence for _, sentence in advice(arrays, written or TextFormat())]


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["31.12.2024", "1.2.2025"], ["%d.%m.%Y"]),
        (["2024/12/31"], ["%Y/%m/%d"]),
        (["12/31/2024"], ["%m/%d/%Y"]),
        (["01/02/2024"], ["%d/%m/%Y", "%m/%d/%Y"]),  # only the owner knows
        (["31.02.2024"], []),
        (["31.12.2024", "soon"], []),
        ([], []),
    ],
)
def test_dates(values: list[str], formats: list[str]) -> None:
    assert date_formats(pa.array(values, pa.string())) == formats


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        (["6.171,34 EUR", "12,5 EUR", "1.000 EUR"], "--decimal , --thousands . --units EUR"),
        (["1,234.5", "12"], "--thousands ,"),
        (["1,234", "12,500"], "--thousands ,"),  # between commas, a group of three is a thousand
        (["$1200", "$3"], "--units '$'"),
        (["12,5 %"], "--decimal , --units %"),
        (["1'234.50 CHF"], f"--thousands {shlex.quote(chr(39))} --units CHF"),
    ],
)
def test_numbers(values: list[str], flags: str) -> None:
    assert told(pay=values) == [f"pay is read as text and looks like a number: pass {flags}."]


def test_several_columns_are_declared_together() -> None:
    assert told(pay=["1.000,5 EUR"], share=["5,5 %"], day=["31.1.2024"], ward=["A 1", "low"]) == [
        "day is read as text and looks like dates: pass --dates day=%d.%m.%Y.",
        "pay and share are read as text and look like numbers: pass --decimal , --thousands . "
        "--units %,EUR.",
    ]


@pytest.mark.parametrize(
    "values",
    [
        ["low", "high"],
        ["A1", "B2", "C3", "D4", "E5"],
        ["", "x 5 y 3"],
        ["P0012", "P0013"],
        ["Ward 1"],
        ["5a"],
    ],
)
def test_words_are_words(values: list[str]) -> None:
    assert told(ward=values) == []


def test_what_is_declared_stays() -> None:
    assert told(TextFormat(decimal=","), pay=["1,5 EUR"]) == [
        "pay is read as text and looks like a number: pass --units EUR."
    ]
    assert told(TextFormat(decimal=","), pay=["1.5 EUR"]) == []
