"""The cumulant function of a loss, used only to choose interesting epsilons for a table."""

from collections.abc import Callable, Iterator

from mpmath import mp, mpf

from .delta import Term


class Cumulant:
    """``Lambda(s)``, its derivatives, and its sensitivity to the variance ratios."""

    def __init__(self, terms: list[Term]) -> None:
        self.rows = [(t.ratio(), t.squared_shift(), mpf(t.count)) for t in terms]
        bounds = [1 / (lam - 1) for lam, _, _ in self.rows if lam != 1]
        self.right = min((b for b in bounds if b > 0), default=mp.inf)

    def value(self, s: mpf) -> mpf:
        return mp.fsum(
            n * (m2 * lam * s * (1 + s) / (1 + s - s * lam) - s * mp.log(lam)
                 - mp.log1p(s * (1 - lam))) / 2
            for lam, m2, n in self.rows
        )  # fmt: skip

    def first(self, s: mpf) -> mpf:
        return mp.fsum(
            n / 2 * (m2 * lam * (1 + 2 * s + a * s * s) / d**2 - mp.log(lam) - a / d)
            for lam, m2, n, a, d in self._at(s)
        )

    def second(self, s: mpf) -> mpf:
        return mp.fsum(
            n / 2 * (2 * m2 * lam**2 / d**3 + (a / d) ** 2) for lam, m2, n, a, d in self._at(s)
        )

    def _at(self, s: mpf) -> Iterator[tuple[mpf, mpf, mpf, mpf, mpf]]:
        for lam, m2, n in self.rows:
            yield lam, m2, n, 1 - lam, 1 + s * (1 - lam)

    def condition(self, s: mpf) -> mpf:
        """``sum |d Lambda / d ln (lam - 1)|`` at the saddle: about the condition of ln delta."""
        total = mpf(0)
        for lam, m2, n in self.rows:
            if lam != 1:
                h = mpf(10) ** -20
                pair = [Cumulant([]), Cumulant([])]
                pair[0].rows, pair[1].rows = [(1 + (lam - 1) * (1 + h), m2, n)], [(lam, m2, n)]
                total += abs(pair[0].value(s) - pair[1].value(s)) / h
        return total

    def log_size(self, s: mpf) -> mpf:
        """Saddle-point estimate of ln delta (s > 0) or ln(1 - delta) (-1 < s < 0)."""
        exponent = self.value(s) - s * self.first(s)
        return exponent - mp.log(abs(s) * (1 + s)) - mp.log(2 * mp.pi * self.second(s)) / 2

    def tilt(self, target: float) -> mpf | None:
        """The s > 0 at which the estimate of ln delta is ``target``."""
        return self._search(lambda s: self.log_size(s) > target)

    def tilt_of(self, eps: float) -> mpf:
        """The s > 0 with ``Lambda'(s) = eps``, or 0 if there is none."""
        return self._search(lambda s: self.first(s) < eps) or mpf(0)

    def _search(self, before: Callable[[mpf], bool]) -> mpf | None:
        def place(x: mpf) -> mpf:
            return mp.exp(x) if mp.isinf(self.right) else self.right / (1 + mp.exp(-x))

        low, high = mpf(-60), mpf(60)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if before(place(middle)) else (low, middle)
        return place(low) if -59 < low < 59 else None

    def lower_tilt(self, target: float) -> mpf | None:
        """The s in (-1/2, 0) at which the estimate of ln(1 - delta) is ``target``."""
        low, high = mpf(-1) / 2, -(mpf(10) ** -12)
        if self.log_size(low) > target:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.log_size(middle) < target else (low, middle)
        return low
