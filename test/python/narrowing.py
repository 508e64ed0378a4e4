"""What a cast to a narrow format rounds."""

from __future__ import annotations

from typing import Any

import numpy as np


def saturated(x: np.ndarray, largest: float) -> Any:
    """Clips finite values to the format's largest; infinities become NaN if it is one of FP8."""
    infinities = np.nan if largest in (448, 57344) else x
    return np.where(np.isinf(x), infinities, np.clip(x, -largest, largest))
