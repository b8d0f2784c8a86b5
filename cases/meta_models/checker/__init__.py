"""The independent checker's part for meta_models: formulas derived again from the state, in rationals and balls."""

from certify.checker.cases.meta_models import attention, convex, fields, floors, layers, meta, mixtures
from certify.checker.cases.meta_models.parts import require_subject

CHECKS = {
    **fields.CHECKS,
    **convex.CHECKS,
    **attention.CHECKS,
    **meta.CHECKS,
    **mixtures.CHECKS,
    **layers.CHECKS,
    **floors.CHECKS,
}

__all__ = ["CHECKS", "require_subject"]
