import numpy as np
from numpy.typing import NDArray

class Round:
    def __new__(
        cls,
        bits: int,
        alpha: float,
        fill: float,
        shrink: float,
        tiny: float,
        magnitude: float,
        weights: bytes,
        values: bytes,
        gradient: bytes,
    ) -> Round: ...
    def payload(self, draw: bytes) -> bytes: ...
    def absorb(self, payloads: list[bytes], x: NDArray[np.float64]) -> None: ...
    def track(self, gradient: NDArray[np.float64]) -> None: ...
    @property
    def values(self) -> bytes: ...
    @property
    def noised(self) -> bytes: ...
    @property
    def reference(self) -> bytes: ...
