"""Long-run averages against closed forms."""

import surefoot as sf


def long_run(sim, policy, seed=0):
    return sf.simulators.long_run_average_reward(sim, policy, steps=3000, keep=2500, seed=seed)


def assert_close(estimate, expected):
    """Within four standard errors, and those small enough for this to mean something."""
    assert estimate.standard_error < 0.005 * abs(expected)
    assert abs(estimate.mean - expected) < 4 * estimate.standard_error
