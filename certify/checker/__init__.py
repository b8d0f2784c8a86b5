"""Re-proves every claim of a report from the state file alone: standard library and python-flint, nothing else."""
