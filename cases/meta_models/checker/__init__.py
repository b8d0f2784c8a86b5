"""The independent checker's part for meta_models: formulas derived again from the state, in rationals and balls."""

from certify.checker.cases.meta_models import (
    attention,
    convex,
    fields,
    floors,
    layers,
    linkage,
    loops,
    meta,
    mixtures,
    rules,
)
from certify.checker.cases.meta_models.parts import require_subject

CHECKS = {
    **fields.CHECKS,
    **loops.CHECKS,
    **convex.CHECKS,
    **attention.CHECKS,
    **meta.CHECKS,
    **mixtures.CHECKS,
    **rules.CHECKS,
    **layers.CHECKS,
    **linkage.CHECKS,
    **floors.CHECKS,
}

__all__ = ["CHECKS", "require_subject"]
