"""Clipped gradients of records in decimal arithmetic with 60 digits, by the definitions.

Nothing of the project is imported. A function takes one record (row a, target b) and the point x
as lists of floats, and gives the vector B' / C * clip_C(grad loss(x)) before it is rounded.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

Vector = list[Decimal]
Numbers = Sequence[float]
DIGITS = 60


def dot(a: Sequence[Decimal], b: Sequence[Decimal]) -> Decimal:
    return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))


def least_squares(a: Vector, b: Decimal, x: Vector, **_: Any) -> Vector:
    """Of (a x - b)^2."""
    return [2 * (dot(a, x) - b) * entry for entry in a]


def huber(a: Vector, b: Decimal, x: Vector, threshold: float = 1.0, **_: Any) -> Vector:
    """Of h(a x - b), h(t) = t^2 / 2 up to the threshold, then linear."""
    residual, limit = dot(a, x) - b, Decimal(threshold)
    slope = residual if abs(residual) <= limit else limit.copy_sign(residual)
    return [slope * entry for entry in a]


def poisson(a: Vector, b: Decimal, x: Vector, largest_rate: float, **_: Any) -> Vector:
    """Of exp(a x) - b a x, where exp continues as its tangent beyond the largest rate."""
    return [(min(dot(a, x).exp(), Decimal(largest_rate)) - b) * entry for entry in a]


def logistic(a: Vector, label: Decimal, x: Vector, **_: Any) -> Vector:
    """Of log(1 + exp(-s a x)), s = 1 for label 1 and -1 for label 0."""
    sign = 1 if label == 1 else -1
    return [-sign * entry / (1 + (sign * dot(a, x)).exp()) for entry in a]


def softmax(a: Vector, label: Decimal, x: Vector, classes: int = 3, **_: Any) -> Vector:
    """Of log sum_c exp(x_c a) - x_label a, with x = (x_0, x_1, ...)."""
    points = [x[c * len(a) : (c + 1) * len(a)] for c in range(classes)]
    powers = [dot(a, point).exp() for point in points]
    shares = [power / sum(powers) - (c == label) for c, power in enumerate(powers)]
    return [share * entry for share in shares for entry in a]


GRADIENTS: dict[str, Callable[..., Vector]] = {
    "least-squares": least_squares,
    "ridge": least_squares,
    "huber": huber,
    "poisson": poisson,
    "logistic": logistic,
    "softmax": softmax,
}


def scaled(
    kind: str, a: Numbers, b: float, x: Numbers, clip: float, bound: int, **options: Any
) -> Vector:
    """B' / C * clip_C(gradient of the loss of one record), B' = bound - ceil(sqrt(d) / 2)."""
    with localcontext() as context:
        context.prec = DIGITS
        row, point = [Decimal(v) for v in a], [Decimal(v) for v in x]
        gradient = GRADIENTS[kind](row, Decimal(b), point, **options)
        half = 0
        while 4 * half * half < len(point):  # the smallest whole number >= sqrt(d) / 2
            half += 1
        length = max(dot(gradient, gradient).sqrt(), Decimal(clip))
        return [(bound - half) * entry / length for entry in gradient]
