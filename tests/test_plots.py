import math
import sys
from pathlib import Path

import numpy as np
import pytest

from ndis import Guarantee, Ledger, Profile, QuadraticLoss, plots

pytest.importorskip("matplotlib")


def test_curve_draws_log_delta_of_each_loss() -> None:
    losses = {"one": QuadraticLoss.from_shift(1.0), "two": QuadraticLoss.from_shift(2.0)}
    epsilons = np.linspace(0.0, 3.0, 7)
    figure = plots.curve(losses, epsilons)
    (axes,) = figure.axes
    for line, (label, loss) in zip(axes.lines, losses.items(), strict=True):
        assert line.get_label() == label
        np.testing.assert_array_equal(line.get_xdata(), epsilons)
        np.testing.assert_allclose(line.get_ydata(), np.log10(loss.delta(epsilons)), rtol=1e-12)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]


def test_curve_goes_on_below_the_smallest_double() -> None:
    figure = plots.curve(QuadraticLoss.from_shift(0.1), [10.0])
    (height,) = figure.axes[0].lines[0].get_ydata()
    assert -math.inf < height < -308
    assert figure.legends == []


def test_curve_leaves_out_an_exact_zero() -> None:
    easy = QuadraticLoss.from_leverage(0.1, 2).reversed()
    (axes,) = plots.curve(easy, [0.0, 5.0]).axes
    assert np.isnan(axes.lines[0].get_ydata()).tolist() == [False, True]


def test_style_stays_inside_its_block() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with plots.style():
        assert matplotlib.rcParams["axes.grid"] is True
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'ndis\[plots\]'"):
        plots.curve(QuadraticLoss.from_shift(1.0), [1.0])


def test_burn_down_draws_what_remained_after_each_release(tmp_path: Path) -> None:
    release = Guarantee(1.0, 0.1, "replace", "proven", Profile.both(QuadraticLoss.from_shift(0.1)))
    with Ledger(tmp_path / "ledger", 1.0, 1e-6, "replace") as ledger:
        left = [ledger.remaining().epsilon]
        for _ in range(3):
            ledger.spend(release, "example")
            left.append(ledger.remaining().epsilon)
        (axes,) = plots.burn_down(ledger).axes
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), left, rtol=1e-9)
