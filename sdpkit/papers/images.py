"""Images of digits made upright."""

from __future__ import annotations

import numpy as np
import scipy.ndimage

from sdpkit.typing import Array


def deskew(images: Array, side: int = 28) -> Array:
    """Images sheared so that the principal axis of their ink is upright.

    The shear is the covariance of columns and rows over the variance of rows, by moments.
    """
    rows, columns = np.mgrid[:side, :side]
    out = np.empty_like(images)
    for k, image in enumerate(images.reshape(-1, side, side)):
        ink = max(float(image.sum()), 1e-12)
        row, column = float((rows * image).sum()) / ink, float((columns * image).sum()) / ink
        slant = float(((rows - row) * (columns - column) * image).sum()) / ink
        upright = float(((rows - row) ** 2 * image).sum()) / ink
        shear = slant / upright if upright > 0 else 0.0
        matrix = np.array([[1.0, 0.0], [shear, 1.0]])
        middle = (side - 1) / 2
        offset = np.array([row, column]) - matrix @ np.array([middle, middle])
        out[k] = scipy.ndimage.affine_transform(image, matrix, offset, order=1).ravel()
    return out
