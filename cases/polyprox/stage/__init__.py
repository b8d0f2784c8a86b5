"""The fixed stage: constant ``alpha, rho, gamma`` and ``b = 0``, its fixed points and what can be proved near them.

Source: polyprox.md section 5.
"""
