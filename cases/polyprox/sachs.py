"""The embedded real data: 7466 single-cell measurements of 11 phosphoproteins.

Sachs, Perez, Pe'er, Lauffenburger, Nolan, Science 308 (2005) 523-529; see ``data/ATTRIBUTION.md``.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


def covariance() -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return ``Sigma (11, 11)`` of the logarithms of the columns, scaled to unit variance, and the column names."""
    data, names = measurements()
    logs = np.log(data)
    logs -= logs.mean(axis=0)
    logs /= logs.std(axis=0)
    Sigma: NDArray[np.float64] = logs.T @ logs / len(logs)
    return Sigma, names


def measurements() -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the measurements ``(7466, 11)``, all positive, in the units of the cytometer, and the column names."""
    with files(__package__).joinpath("data/cyto_full_data.csv").open(encoding="ascii") as lines:
        names = tuple(next(lines).strip().split(","))
        return np.loadtxt(lines, delimiter=","), names


def consensus() -> tuple[tuple[str, str], ...]:
    """Return the consensus edges as pairs (cause, effect) of column names."""
    text = files(__package__).joinpath("data/cyto_full_target.csv").read_text(encoding="ascii")
    rows = [line.replace('"', "").split(",") for line in text.split("\n")[1:] if line]
    return tuple((cause, effect) for cause, effect in rows)
