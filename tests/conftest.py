"""Settings of the whole suite."""

from hypothesis import settings

# One commit has one verdict: examples follow from the test, not from the day. `--hypothesis-profile=default` draws new ones.
settings.register_profile("repeatable", derandomize=True, print_blob=True)
settings.load_profile("repeatable")
