"""The independent checker's part for meta_models: formulas derived again from the state, in rationals and balls."""

from certify.checker.cases.meta_models import fields, layers, mixtures, networks
from certify.checker.cases.meta_models.parts import require_subject

CHECKS = {**fields.CHECKS, **networks.CHECKS, **mixtures.CHECKS, **layers.CHECKS}

__all__ = ["CHECKS", "require_subject"]
