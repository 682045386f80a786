"""Pages that are self-contained and show what they are given."""

from pathlib import Path

from ndis.report.page import section, table, write_page


def test_a_page_escapes_what_it_shows(tmp_path: Path) -> None:
    path = write_page(tmp_path / "p.html", "<a>", [section("<b>", table(["<c>"], [["<d>"]]))])
    text = path.read_text()
    assert all(f"&lt;{letter}&gt;" in text for letter in "abcd")
