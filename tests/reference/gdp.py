"""The account of Gaussian noise from its definitions. Nothing of the project is imported."""

import math
from decimal import Decimal, getcontext, localcontext


def arctan_of_inverse(n: int) -> Decimal:
    """arctan(1/n) = 1/n - 1/(3 n^3) + 1/(5 n^5) - ..."""
    power, k = Decimal(1) / n, 1
    total = power
    while abs(power) > Decimal(10) ** -getcontext().prec:
        power /= -n * n
        k += 2
        total += power / k
    return total


def normal_cdf(x: Decimal) -> Decimal:
    """Phi(x) = 1/2 + phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...), in the current precision."""
    term = total = x
    n = 1
    while abs(term) > abs(total) * Decimal(10) ** -getcontext().prec:
        n += 2
        term = term * x * x / n
        total += term
    pi = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    return Decimal(1) / 2 + (-x * x / 2).exp() / (2 * pi).sqrt() * total


def delta(mu: float, epsilon: float) -> Decimal:
    """Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu), to 25 digits at least.

    Digits are lost where Phi is small, where exp(epsilon) is large and where the terms cancel."""
    far = epsilon / mu + mu / 2
    with localcontext() as context:
        context.prec = 50 + int(far**2 / 2 + epsilon / 2 - 2 * min(0.0, math.log10(mu)))
        m, e = Decimal(mu), Decimal(epsilon)
        return normal_cdf(m / 2 - e / m) - e.exp() * normal_cdf(-m / 2 - e / m)


def slope(mu: float, epsilon: float) -> float:
    """The derivative of delta by mu: the density of N(0, 1) at epsilon / mu - mu / 2."""
    return math.exp(-((epsilon / mu - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)


def log_delta_of_renyi(alpha: float, divergence: float, epsilon: float) -> float:
    """Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, proposition 12:

    delta = exp((alpha - 1) (divergence - epsilon)) / (alpha - 1) (1 - 1 / alpha)^alpha
    """
    exponent = (alpha - 1) * (divergence - epsilon)
    return exponent - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)
