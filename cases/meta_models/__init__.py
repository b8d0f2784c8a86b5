"""The case meta_models: attention as belief propagation, depth as EM, and layers whose weights depend on their input.

The paper (arXiv 2610.12741) has no theorem and no table: a derivation, two assumptions and two experiments. This case takes
its systems one by one and proves what is exact, bounds what is rounded, and shows where a step does not follow.
"""
