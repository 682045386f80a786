"""Errors of coefficients: second moments of pulls are believed as far as noise allows."""

from __future__ import annotations

import numpy as np

from ndis.mechanisms.regression_methods import errors


def test_unequal_variances_are_seen_and_noise_is_not() -> None:
    rng, d = np.random.default_rng(0), 4
    truth = np.diag([1.0, 1.0, 2.0, 8.0])
    np.testing.assert_allclose(errors._shrunk(truth, np.eye(d), np.eye(d), 1e-6), truth, atol=1e-6)
    shares = []
    for _ in range(200):
        noise = np.triu(rng.standard_normal((d, d)) * np.sqrt(0.5), 1)
        noise = 0.2 * (noise + noise.T + np.diag(rng.standard_normal(d)))
        found = errors._shrunk(np.eye(d) + noise, np.eye(d), np.eye(d), 0.2)
        shares.append(np.sum((found - np.trace(found) / d * np.eye(d)) ** 2) / np.sum(noise**2))
    assert np.mean(shares) < 0.25


def test_a_hidden_direction_is_bounded_by_its_gradient_and_by_what_it_can_explain() -> None:
    left, values = np.array([4.0, 4.0, 4.0]), np.array([2.0, 1e-3, 2.0])
    unknown = np.array([True, True, False])
    found = errors._hidden(left, values, unknown, most=10.0)
    np.testing.assert_allclose(found, [1.0, 1e4, 0.0])


def test_noise_alone_is_not_taken_for_rows() -> None:
    """With the same noise everywhere, and with less along some directions; with one known."""
    rng, d = np.random.default_rng(0), 9
    for scales in (np.ones(d), np.geomspace(1.0, 0.1, d)):
        variances, above = np.outer(scales, scales) ** 2, np.zeros(2)
        for _ in range(300):
            noise = np.triu(rng.standard_normal((d, d)) * np.sqrt(0.5), 1)
            noise = np.outer(scales, scales) * (noise + noise.T + np.diag(rng.standard_normal(d)))
            for k, rows in enumerate((0.0, 30.0)):
                values, vectors = np.linalg.eigh(noise + rows * np.diag(np.arange(d) > 0))
                pairs = (vectors**2).T @ variances @ vectors**2
                above[k] += errors._resolved(values, pairs).sum() > k * (d - 1)
        assert np.all(above <= 3)


def test_a_quotient_of_noisy_numbers_has_the_interval_of_fieller() -> None:
    """One direction: |g - m t| <= 1.96 sqrt(v + s^2 t^2) has these ends, about its own middle."""
    m, s, g, v, reach = 4.0, 1.0, 2.0, 0.5, errors._ALLOWED
    careful = errors._careful(np.array([m]), np.array([[s**2]]), np.array([True]))[0]
    a, b, c = m**2 - reach**2 * s**2, -2 * m * g, g**2 - reach**2 * v
    width = np.sqrt(b**2 - 4 * a * c) / a
    wide = careful / m * np.sqrt(v + s**2 * (careful * g / m) ** 2)
    np.testing.assert_allclose(2 * reach * wide, width)
