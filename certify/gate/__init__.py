"""Compares two reports: what became worse, in forms that people and CI read."""
