"""Contraction of a fixed stage: verified eigenvalue bounds (`certify.contraction.spectrum`) and the tests that use them.

Nothing is imported here; python-flint is loaded by the first bound.
"""
