"""Between examples of the gallery: the style of the site, and no random state left over."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from sdpkit import plotting


def reset(gallery_conf: Any, fname: str) -> None:
    plt.close("all")
    mpl.rcdefaults()
    mpl.use("agg")
    plotting.use_style()
