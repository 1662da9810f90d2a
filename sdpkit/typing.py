"""Names of array types, for annotations."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Shapes are stated in docstrings.
Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Single: TypeAlias = NDArray[np.float32]

__all__ = ["Array", "Bools", "Indices", "Single"]
