"""The one way from a mechanism to a release: check, make the file, pay, draw, certify.

The order is the promise: what can fail fails before the payment, and nothing that was drawn leaves
without one. Add a step here only if you know what happens when the process is killed before it.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import wrong
from ndis.guarantee import Guarantee
from ndis.mechanisms.uninterrupted import uninterrupted
from ndis.randomness import RandomState, generator, is_secure
from ndis.release import NewFile, Release, Shapes, blank
from ndis.release.certificate import most_epsilon

if TYPE_CHECKING:
    from ndis.ledger import Ledger

__all__ = ["publish"]

_GOING_ON = "the release is paid; what ends this program waits until it is written."
# Fixed, not 1/n: a warning that knew the number of rows would tell it.
_LARGE_DELTA = 1e-3


def publish(
    draw: Callable[[np.random.Generator], Any],
    guarantee: Guarantee,
    mechanism: str,
    parameters: Mapping[str, Any],
    shapes: Shapes,
    *,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
    file: NewFile | None = None,
    even_if_refuted: bool = False,
) -> Release:
    """Spend the budget, then draw the noise, then record what came out.

    The order is the point. All that can be wrong with the certificate or with the file is found
    before anything is paid; a crash after the payment wastes budget and never overspends it; and
    what was paid for and drawn is never thrown away. Where a ledger pays, in the main thread,
    Ctrl-C, SIGTERM and SIGHUP wait until the file has its name.

    Parameters
    ----------
    draw : callable
        Takes the generator and returns the released arrays of float64, by name (or the only one),
        already rounded to the grid of their noise.
    guarantee : Guarantee
    mechanism : str
    parameters : mapping
        Public, and JSON-able once numpy's numbers are Python's.
    shapes : mapping of str to tuple of int
        The shapes of the arrays that `draw` will return; "value" for the only one.
    random_state, ledger
        As everywhere.
    file : NewFile, optional
        Where the release goes.
    even_if_refuted : bool
        No mechanism of this library has a guarantee that our own computation contradicts; one of
        another package is published only if that package says so.
    """
    if guarantee.basis == "refuted" and not even_if_refuted:
        raise ValueError(
            f"Expected a mechanism that keeps its promise, got {mechanism} with a published claim "
            "that our own computation contradicts; use another."
        )
    _check(ledger)
    honest = replace(guarantee, private=is_secure(random_state))
    rng = generator(random_state)
    draft = blank(shapes, honest, mechanism, parameters)
    draft.measure()
    if file is not None:
        file.reserve(draft)
    told, entry = "nothing was paid", None
    held: AbstractContextManager[list[int]] = nullcontext([])
    if ledger is not None:
        held = uninterrupted(_GOING_ON)
    try:
        with held as waiting:
            if ledger is not None:
                told = "the ledger knows whether it was paid, nothing was written"
                entry = ledger.spend(honest, mechanism)
                told = f"release {entry.number} is paid, nothing was written"
            release = _filled(draft, draw(rng))
            if file is not None:
                told = f"the release is written to {_write(file, release)}"
            if ledger is not None and entry is not None:
                _record(ledger, entry, release)
            if waiting:
                told = _after_signals(waiting, told, file)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(told) from None
    except Exception as error:  # raised again, with a word on what was paid
        if entry is not None:
            error.add_note(f"({told})")
        raise
    return release


def _write(file: NewFile, release: Release) -> Any:
    """Write the release, elsewhere if its place is gone; where there is no room, it is returned."""
    try:
        return file.write(release)
    except OSError as error:
        if path := file.elsewhere(release):
            _warn(
                f"Expected to write {file.path}, but could not ({error.strerror}); the release is "
                f"made and is written to {path} instead, readable by you alone."
            )
            return path
        file.failure = error  # `NewFile` raises it, once the release is in safe hands
        return "no file"


def _after_signals(waiting: list[int], told: str, file: NewFile | None) -> str:
    """Say what was made before a signal ends the program; an interrupt loses no release."""
    if file is None or file.failure is not None:  # in memory only
        waiting[:] = [number for number in waiting if number != signal.SIGINT]
        told = "the release is made and is what the call returns; it must not be made again"
    _warn(f"A signal came after the payment; {told}.")
    return told


def ask(
    guarantee: Guarantee,
    ledger: Ledger | None,
    random_state: RandomState = None,
    one_of_many: bool = False,
) -> None:
    """Refuse before any data are read what no certificate can state, or the ledger would refuse.

    Spends nothing. Warns of a delta so large that the promise would say little, and of a release
    that is one of many, as in a cross-validation, which nobody counts.
    """
    _check(ledger)
    if guarantee.epsilon > (most := most_epsilon()):
        raise wrong("epsilon")(
            f"Expected epsilon of at most {most:.0f}, got {guarantee.epsilon:g}; a larger one "
            "promises nothing: ask for less, or give more noise."
        )
    honest = replace(guarantee, private=is_secure(random_state))
    if honest.private and honest.delta > _LARGE_DELTA:
        warnings.warn(
            f"With probability {honest.delta:g} this promise says nothing: a mechanism with such a "
            "delta may publish somebody's whole row; choose a delta far below one in the number of "
            "people, for instance 1e-6.",
            UserWarning,
            stacklevel=2,
        )
    if ledger is not None and not ledger.would_allow(honest):
        ledger.preview(honest)  # which raises, and says what is left
    if ledger is None and honest.private and honest.loss is not None and one_of_many:
        five, ten = ((times * honest.loss).epsilon(honest.delta) for times in (5, 10))
        warnings.warn(
            "Every fit of a copy is a release, as in a cross-validation: 5 of them cost epsilon "
            f"{five:.3g}, 10 of them {ten:.3g}, at delta {honest.delta:g} if none depends on "
            "another; pass a ledger, which counts them, or compare by forecasts, which cost "
            "nothing.",
            UserWarning,
            stacklevel=2,
        )


def _filled(draft: Release, drawn: Any) -> Release:
    """The draft with the arrays that were drawn."""
    named = drawn if isinstance(drawn, Mapping) else {"value": drawn}
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in named.items()}
    expected = {name: array.shape for name, array in draft.arrays.items()}
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected:
        raise RuntimeError(
            f"Expected {draft.mechanism} to release arrays of shapes {expected}, got {found}; "
            "please report this fault of ndis."
        )
    return Release(arrays, draft.guarantee, draft.mechanism, draft.parameters)


def _check(ledger: Any) -> None:
    if ledger is not None and not hasattr(ledger, "spend"):
        raise TypeError(
            f"Expected ledger to be a Ledger, got {type(ledger).__name__}; open it with Ledger."
        )


def _record(ledger: Ledger, entry: Any, release: Release) -> None:
    """Tell the ledger what came out; the release is made, whether that works or not."""
    try:
        ledger.complete(entry, release.digest)
    except Exception as error:  # a full disk, a damaged file: none of it may cost the release
        _warn(
            f"Release {entry.number} is paid and made, but the ledger could not record its "
            f"digest {release.digest} ({error}); keep the release, and do not make it again."
        )


def _warn(words: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # not even where warnings are errors
        warnings.warn(words, RuntimeWarning, stacklevel=3)
