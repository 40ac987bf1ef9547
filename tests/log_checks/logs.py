"""Logs and look-ups that several tests of checks share."""

import surefoot as sf


def make_logs(participants=30, decision_points=80, seed=0):
    people = sf.simulators.HeartSteps(participants=participants)
    return people.collect(sf.policies.coin(2), decision_points=decision_points, seed=seed)


def find_check(checks, name):
    return next(check for check in checks if check.name == name)
