"""The pytest plugin: fixtures that certify kernels; everything heavy is imported when a fixture is used."""
