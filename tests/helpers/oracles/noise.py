"""The least noise of the Gaussian mechanism, to 60 digits, from the closed form."""

import mpmath as mp


def reference_multiplier(epsilon: float, delta: float) -> mp.mpf:
    """The root of the closed form, to 60 digits."""
    with mp.workdps(90):
        eps, target = mp.mpf(epsilon), mp.log(mp.mpf(delta))

        def gap(log_shift: mp.mpf) -> mp.mpf:
            shift = mp.exp(log_shift)
            tail = mp.ncdf(shift / 2 - eps / shift)
            return mp.log(tail - mp.exp(eps) * mp.ncdf(-shift / 2 - eps / shift)) - target

        low, high = mp.log(eps / 40), mp.log(40)
        # Bisection to a good start, then the secant method to the last digit.
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if gap(middle) > 0 else (middle, high)
        root = mp.findroot(gap, (low, high), solver="anderson", tol=1e-120, verify=False)
        assert abs(gap(root)) < 1e-60
        return mp.exp(-root)
