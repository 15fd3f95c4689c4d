"""Gaussian differential privacy: between mu and (epsilon, delta), and the same for zCDP.

A mechanism is mu-GDP if its outputs on adjacent data are at least as hard to tell apart as N(0, 1)
and N(mu, 1). It is (epsilon, delta)-DP for (Dong, Roth and Su, Gaussian differential privacy)

    delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)
          = Q(a) - phi(a) R(b)                        a, b = epsilon / mu -+ mu / 2

with the density phi and the upper tail Q of N(0, 1), and Mills' ratio R = Q / phi. The second form
follows from exp(epsilon) phi(b) = phi(a). It has no exp(epsilon), which overflows.

All functions err on the safe side. delta_of is never below the true delta:

- Q and R fall with their arguments, and phi(|a|) does. Q is taken at a - m, phi and R at |a| + m
  and b + m, with m = MARGIN b. If mu changes by a factor 1 + t, then a and b move by t b at most.
  So m covers the rounding of all arguments, which is less than 2^-50 b, and a mu that is rounded by
  a factor of 1 +- 2^-49.
- erfc and exp of C libraries are right to a few units of 2^-53, and so are the operations here.
  SLACK is added to both terms for that.
- d delta / d mu = phi(a), so delta is at most mu times the largest phi on the way from 0 to mu. For
  small mu this is closer than the difference, whose terms are nearly the same.
- SMALLEST replaces smaller results, where floats lose their precision.

The other functions search by bisection, and return the end of the last interval that is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable

MARGIN = 2.0**-48
SLACK = 2.0**-47
ROOM = 2.0**-40
SMALLEST = 2.0**-1022  # the smallest float of full precision
_FAR = 1e100  # replaces larger numbers on the safe side, so that no infinity enters
_LEVELS = 101  # odd, so that the continued fraction ends below R


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta for which a mu-GDP mechanism is (epsilon, delta)-DP, rounded up."""
    _require_at_least_zero(mu=mu, epsilon=epsilon)
    if mu == 0:
        return 0.0
    ratio = min(epsilon / mu, _FAR)
    a, b = ratio - mu / 2, ratio + mu / 2
    margin = MARGIN * b
    tail = (1 + SLACK) * math.erfc((a - margin) / math.sqrt(2)) / 2
    rest = (1 - SLACK) * _density(abs(a) + margin) * _mills_ratio(b + margin)
    slope = (1 + SLACK) * _density(max(a - margin, 0.0))
    return min(1.0, max(SMALLEST, min(tail - rest, mu * slope)))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP, rounded up.

    It is infinite if floats hold no such epsilon, as for delta = 0."""
    _require_at_least_zero(mu=mu, delta=delta)
    return _bisect(lambda epsilon: delta_of(mu, epsilon) <= delta)[1]


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu with delta_of(mu, epsilon) <= delta, rounded down, less ROOM; delta < 1.

    ROOM is for what is computed from it: if noise spends this mu, the epsilon_of the sum of what
    was spent is not above epsilon, but for the rounding of epsilon_of itself: for epsilon and delta
    as small as 0.001 and 1e-11 that is a part in 1e12."""
    _require_at_least_zero(epsilon=epsilon, delta=delta)
    if delta >= 1:
        raise ValueError(f"delta is {delta}, but must be below 1")
    return _bisect(
        lambda mu: any(delta_of(mu * factor, epsilon) > delta for factor in (1, 1 + ROOM))
    )[0]


def rho_of_epsilon(epsilon: float) -> float:
    """A mechanism that is epsilon-DP is rho-zCDP (Bun and Steinke 2016, proposition 1.4)."""
    return epsilon * epsilon / 2


def delta_of_rho(rho: float, epsilon: float) -> float:
    """A delta for which a rho-zCDP mechanism is (epsilon, delta)-DP.

    Canonne, Kamath and Steinke 2020, corollary 13: the minimum over alpha = 1 + t > 1 of

        log delta = t ((1 + t) rho - epsilon) - log(1 + t) - t log(1 + 1 / t)

    It is convex in t. Every t is safe, so the minimum need not be exact. A mu-GDP mechanism is
    mu^2 / 2-zCDP."""
    _require_at_least_zero(rho=rho, epsilon=epsilon)
    if rho == 0:
        return 0.0
    epsilon = min(epsilon, _FAR)
    _, t = _bisect(lambda t: t > 0 and (1 + 2 * t) * rho - epsilon >= math.log1p(1 / t))
    t = min(t, _FAR)
    terms = t * (1 + t) * rho, -t * epsilon, -math.log1p(t), -t * math.log1p(1 / t)
    logarithm = sum(terms) + SLACK * (1 + sum(map(abs, terms)))
    return max(SMALLEST, math.exp(min(logarithm, 0.0)))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """An epsilon for which a rho-zCDP mechanism is (epsilon, delta)-DP."""
    _require_at_least_zero(rho=rho, delta=delta)
    return _bisect(lambda epsilon: delta_of_rho(rho, epsilon) <= delta)[1]


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills_ratio(x: float) -> float:
    """R(x) = Q(x) / phi(x) = 1 / (x + 1 / (x + 2 / (x + 3 / (x + ...)))), not above it."""
    if x < 2:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    fraction = x
    for level in range(_LEVELS, 0, -1):
        fraction = x + level / fraction
    return 1 / fraction


def _bisect(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring floats: the last for which `holds` was false, the first for which it was true.

    (0, 0) if it holds at once, (the largest power of two, infinity) if it never does."""
    low, high = 0.0, 1.0
    if holds(low):
        return low, low
    while high < math.inf and not holds(high):
        low, high = high, 2 * high
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _require_at_least_zero(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}, but must be finite and at least 0")
