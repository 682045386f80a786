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


def test_marks_are_on_every_curve_or_on_that_of_a_label() -> None:
    losses = {"one": QuadraticLoss.from_shift(1.0), "two": QuadraticLoss.from_shift(2.0)}
    (everywhere,) = plots.curve(losses, [0.0, 1.0], marked=[0.5]).axes
    assert [line.get_xdata().tolist() for line in everywhere.lines[1::2]] == [[0.5], [0.5]]
    (one,) = plots.curve(losses, [0.0, 1.0], marked={"two": [0.5]}).axes
    assert [line.get_marker() for line in one.lines] == ["None", "None", "o"]


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
    with Ledger.create(tmp_path / "ledger", 1.0, 1e-6, "replace") as ledger:
        left = [ledger.remaining().epsilon]
        for _ in range(3):
            ledger.spend(release, "example")
            left.append(ledger.remaining().epsilon)
        (axes,) = plots.burn_down(ledger).axes
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), left, rtol=1e-9)


def test_tradeoff_draws_misses_against_false_alarms() -> None:
    loss = QuadraticLoss.from_shift(1.0)
    (axes,) = plots.tradeoff({"one": loss}, [0.0, 0.05, 1.0], title="one shift").axes
    curve, guess = axes.lines
    np.testing.assert_allclose(curve.get_ydata(), loss.tradeoff([0.0, 0.05, 1.0]))
    np.testing.assert_array_equal(guess.get_ydata(), [1.0, 0.95, 0.0])
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert axes.get_title() == "one shift"
    assert "alpha" in axes.get_xlabel()
    assert "beta" in axes.get_ylabel()
    assert len(plots.tradeoff(loss).legends) == 0  # nothing to name


def test_tradeoff_on_logarithmic_scales_draws_what_is_caught() -> None:
    loss = QuadraticLoss.from_shift(1.0)
    (axes,) = plots.tradeoff(loss, [0.05, 1.0], log=True).axes
    curve, guess = axes.lines
    np.testing.assert_allclose(curve.get_ydata(), 1 - loss.tradeoff([0.05, 1.0]))
    np.testing.assert_array_equal(guess.get_ydata(), [0.05, 1.0])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_notebooks_show_a_figure_by_itself() -> None:
    figure = plots.curve(QuadraticLoss.from_shift(1.0), [0.0, 1.0])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_compare_leaves_a_gap_where_a_way_is_not_available() -> None:
    def only_small(epsilon: float) -> float:
        if epsilon > 1:
            raise ValueError("too large")
        return 1 / epsilon

    figure = plots.compare({"a": only_small, "b": lambda epsilon: 2.0}, [0.5, 2.0], "cost")
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2.0, np.nan])
    assert axes.get_ylabel() == "cost"
    assert axes.get_yscale() == "log"


def test_the_axis_of_delta_ends_where_anybody_cares() -> None:
    loss, grid = QuadraticLoss.from_shift(0.5), np.linspace(0.0, 20.0, 50)
    (axes,) = plots.curve(loss, grid).axes
    assert axes.get_ylim()[0] == -12.0
    (axes,) = plots.curve(loss, grid, marked=[6.0]).axes  # whose delta is smaller
    assert -math.inf < axes.get_ylim()[0] < np.log10(float(loss.delta(6.0))) < -12.0
    (axes,) = plots.curve(loss, [0.0, 0.5]).axes
    assert axes.get_ylim()[0] > -3.0
