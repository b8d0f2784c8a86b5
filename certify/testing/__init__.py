"""Certified bounds in other people's test suites."""
