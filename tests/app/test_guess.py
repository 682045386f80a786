from pathlib import Path

import pytest

from app_pages import write_ugly
from ndis.app.guess import guess


def test_an_ugly_file_is_recognised(tmp_path: Path) -> None:
    write_ugly(tmp_path / "visits.csv", 200)
    assert guess(str(tmp_path / "visits.csv")) == {
        "header": True,
        "delimiter": ";",
        "encoding": "latin-1",
        "decimal": ",",
        "dates": {"Aufnahme": "%d.%m.%Y"},
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n1.5,x\n", {}),
        ("a\tb\n1\t2\n", {"delimiter": "\t"}),
        ("a;b\n1.234,50 EUR;x\n", {"delimiter": ";", "units": ["EUR"]}),
        ("day\n2024-12-31\n", {}),
        ('pay,id\n"1,234",P001\n"12,500",P002\n', {"thousands": ","}),
        ("pay;id\n1,234;P001\n12,500;P002\n", {"delimiter": ";", "decimal": ","}),
        ("share|day\n5,5 %|1/2/2024\n", {"units": ["%"], "dates": {"day": "%d/%m/%Y"}}),
        ("", {}),
    ],
)
def test_what_is_plain_needs_no_word(tmp_path: Path, text: str, found: dict) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert found.items() <= guess(str(path)).items()
    assert guess(str(path))["header"]
