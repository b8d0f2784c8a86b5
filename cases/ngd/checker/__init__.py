"""Proves the claims of the case ngd again: from the state alone, by formulas of its own, with python-flint."""

from __future__ import annotations

from certify.checker.cases.ngd.identities import check_identity
from certify.checker.cases.ngd.layers import check_layers, check_mask
from certify.checker.cases.ngd.separation import (
    check_angle,
    check_count,
    check_decomposition,
    check_max_margin,
    check_rate,
)
from certify.checker.cases.ngd.setting import require_subject

CHECKS = {
    "identity/step": check_identity,
    "identity/unmasked": check_identity,
    "identity/effective": check_identity,
    "identity/rmsnorm": check_identity,
    "identity/layers": check_layers,
    "identity/effective-layers": check_layers,
    "identity/rmsnorm-layers": check_layers,
    "margin/mask": check_mask,
    "margin/max-margin": check_max_margin,
    "margin/rate": check_rate,
    "order/count": check_count,
    "enclosure/angle": check_angle,
    "enclosure/decomposition": check_decomposition,
}

__all__ = ["CHECKS", "require_subject"]
