"""The levels of a table's columns, bought from the data where nobody knows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer
from ndis.calibration import ROUND_UP
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss
from ndis.mechanisms import laws, levels
from ndis.mechanisms.levels import LevelCounts, draw_levels
from ndis.mechanisms.run import Forecast, Plan
from ndis.mechanisms.tabular import TableEstimator
from ndis.mechanisms.target import Part, Target, chosen_noise, mean_shift
from ndis.tables import Columns, Positions, Rows, Table


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLevels(TableEstimator):
    """Levels of columns that many rows have, to be used as `levels` of any estimator.

    `PrivateSummary` finds them itself with ``levels={"ward": "private"}``. Found here, they can be
    used by several.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row. A tenth of delta is the probability that a level
        of one person is published.
    columns : sequence of str
        The columns of text or whole numbers whose levels are to be found.
    max_levels : int, default 100
        The most levels of a column that are found.
    levels_per_person : int, default 10
        With `person`: how many levels of a person count, those that most of their rows have.
    method : {"auto", "laplace", "gaussian"}
        The law of the noise; "auto" takes the one that needs fewer rows of a level.
    noise_scale : dict, optional
        ``{"levels": s}``: noise of standard deviation s on each count, instead of `epsilon`.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    levels_ : dict of str to list of str
        The levels of every column that were found, sorted, to be passed on as `levels`. They are
        text; of a column of whole numbers pass ``list(map(int, levels_["floor"]))``.
    threshold_ : float
        What the noisy count of a level had to exceed.
    release_ : Release
    guarantee_ : Guarantee
    noise_scale_ : dict of str to float

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from ndis import PrivateLevels
    >>> rng = np.random.default_rng(0)
    >>> towns = pa.table({"town": rng.choice(["Ada", "Bern", "Cork"], 2000, p=[0.6, 0.399, 0.001])})
    >>> PrivateLevels(columns=["town"], epsilon=1.0, delta=1e-6, random_state=0).fit(towns).levels_
    {'town': ['Ada', 'Bern']}
    """

    needs = ("columns",)
    weighs = True
    methods = ("laplace", "gaussian")

    max_levels: int = 100
    levels_per_person: int = 10
    method: str = "auto"
    limits: None = field(default=None, init=False)
    data_norm: None = field(default=None, init=False)
    levels: None = field(default=None, init=False)
    n_rows: None = field(default=None, init=False)
    sample_weight: None = field(default=None, init=False)
    max_weight: None = field(default=None, init=False)

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """How many rows a level must have to be found; needs no data.

        Parameters
        ----------
        n_features : int, optional
            Ignored: `columns` names what is read.
        n_rows : int, optional
            Ignored: the threshold does not depend on it.
        """
        plan = self.plan()
        noise = plan.noise_scale["levels"]
        above = self._threshold(plan.method, noise)
        far = laws.reach_of(plan.method, 0.9, noise, 1)
        rows = (max(above - far, 1.0), above + far)
        return Forecast({"rows of a level that is found": rows}, ("found in 5 to 95 of 100 cases",))

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        return self._rows_declared(None)

    def _rows_declared(self, n_features: int | None) -> Rows:
        if self.columns is None or not len(names := list(self.columns)):
            raise wrong("columns")(
                "Expected columns whose levels are to be found, got none; name them."
            )
        names = [name for name in names if name != self.person]
        sought = levels.sought(names)
        features, labels = Columns([], {}, None, None, True, True), Positions(names, sought)
        return Rows(features, labels, weighted=False, sought=sought)

    def _plan(self, rows: Rows) -> Plan:
        law = _validate.one_of("method", self.method, ("auto", *self.methods))
        most = _validate.count("max_levels", self.max_levels)
        _validate.count("levels_per_person", self.levels_per_person)
        if self._buys_rows():
            raise wrong("rows_per_person")(
                'Expected a number for rows_per_person to find levels, got "private"; leave it out.'
            )
        target, k = self._target(rows), len(rows.labels.columns)
        if target.risk:
            raise ValueError(
                "Expected epsilon where levels are private, got a target; state epsilon."
            )
        bought = {each: self._bought(each, target, k) for each in self.methods}
        above = {each: self._threshold(each, parts[0].noise) for each, (parts, _) in bought.items()}
        chosen = min(self.methods, key=above.__getitem__) if law == "auto" else law
        parts, loss = bought[chosen]
        told = ", ".join(f"{each} {rows:.0f}" for each, rows in above.items())
        return Plan(
            chosen,
            parts,
            target.promise(levels.failing(loss, target), NeighbourRelation.ADD_REMOVE),
            {"levels": (k, most, levels.MOST_BYTES)},
            f"A level is found if its noisy count exceeds a threshold: {told}.",
        )

    def _bought(self, law: str, target: Target, k: int) -> tuple[tuple[Part, ...], PrivacyLoss]:
        """A record moves one count of each column by one."""
        rest, parts = levels.rest(target), [Part("levels", math.sqrt(k))]
        if law == "gaussian":
            return mean_shift(rest, parts, self.noise_scale)

        def found(scale: float) -> PrivacyLoss:
            return laws.loss_of("laplace", k / scale, 2)

        given = self.noise_scale
        if given is None:
            assert rest.epsilon is not None
            scale, _ = rest.least_noise(found, start=k / (rest.epsilon or 1e-3))
            given = {"levels": laws.deviation_of("laplace", scale, 1) * ROUND_UP * ROUND_UP}
        known = chosen_noise(given, parts)
        return tuple(known), found(laws.scale_of("laplace", known[0].noise, 1))

    def _threshold(self, law: str, noise: float) -> float:
        assert self.delta is not None
        failure = levels.failure_of(self.delta, len(self._rows_declared(None).labels.columns))
        return levels.threshold(law, noise, failure, self._most)

    @property
    def _most(self) -> int:
        """How many levels of somebody count."""
        return 1 if self.person is None else self.levels_per_person

    def _study(self, table: Table, plan: Plan) -> dict[str, LevelCounts]:
        return levels.read(table, self._most)

    def _draw(
        self, studied: dict[str, LevelCounts], plan: Plan, table: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        law, noise, most = plan.method, plan.noise_scale["levels"], plan.shapes["levels"][1]
        above = self._threshold(law, noise)
        found = [draw_levels(each, law, noise, above, most, rng) for each in studied.values()]
        return {"levels": np.stack(found)}

    def _finish(self, rows: Rows) -> None:
        names, matrices = rows.labels.columns, self.release_.arrays["levels"]
        found = map(levels.decoded, matrices)
        self.levels_ = {name: list(each) for name, each in zip(names, found, strict=True)}
        law = str(self.release_.parameters["method"])
        self.threshold_ = self._threshold(law, self.noise_scale_["levels"])

    def answers(self) -> list[Answer]:
        """The levels of each column."""
        return [
            Answer.of(f"levels of {name}", [], known, [()] * len(known))
            for name, known in self.levels_.items()
        ]
