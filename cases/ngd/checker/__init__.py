"""Proves the claims of the case ngd again: from the state alone, by formulas of its own, with python-flint."""

from __future__ import annotations

from certify.checker.cases.ngd.averages import check_average
from certify.checker.cases.ngd.batch import check_minimiser as check_batch
from certify.checker.cases.ngd.batch import check_scaling
from certify.checker.cases.ngd.depth import check_depth
from certify.checker.cases.ngd.identities import check_identity
from certify.checker.cases.ngd.layers import check_layers, check_mask
from certify.checker.cases.ngd.lemma import check_lemma
from certify.checker.cases.ngd.population import check_minimiser, check_zero
from certify.checker.cases.ngd.programs import check_program
from certify.checker.cases.ngd.separation import (
    check_angle,
    check_count,
    check_decomposition,
    check_max_margin,
    check_rate,
)
from certify.checker.cases.ngd.setting import require_subject
from certify.checker.cases.ngd.trained import check_structure, check_trained

CHECKS = {
    "identity/step": check_identity,
    "identity/unmasked": check_identity,
    "identity/effective": check_identity,
    "identity/rmsnorm": check_identity,
    "identity/layers": check_layers,
    "identity/effective-layers": check_layers,
    "identity/rmsnorm-layers": check_layers,
    "identity/lemma": check_lemma,
    "identity/average": check_average,
    "identity/program": check_program,
    "identity/scaling": check_scaling,
    "margin/mask": check_mask,
    "margin/max-margin": check_max_margin,
    "margin/rate": check_rate,
    "order/count": check_count,
    "enclosure/angle": check_angle,
    "enclosure/decomposition": check_decomposition,
    "enclosure/depth": check_depth,
    "enclosure/structure": check_structure,
    "enclosure/trained": check_trained,
    "enclosure/minimiser": check_minimiser,
    "enclosure/batch-minimiser": check_batch,
    "enclosure/zero": check_zero,
}

__all__ = ["CHECKS", "require_subject"]
