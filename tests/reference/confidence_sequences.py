"""Confidence sequences and the test of draws, read off their formulas one decision point at a time."""

import math
from statistics import fmean


def predict(outcomes, people):
    predicted = []
    for position, person in enumerate(people):
        own = [outcomes[earlier] for earlier in range(position) if people[earlier] == person]
        if position < 10:
            predicted.append(math.nan)
        else:
            predicted.append((sum(own) + 5 * fmean(outcomes[:position])) / (len(own) + 5))
    return predicted


def asymptotic(scores, variances, alpha, first):
    """(mean, half width) after every score from the first-th on."""
    rho2 = None
    intervals = []
    for n in range(first, len(scores) + 1):
        mean = fmean(scores[:n])
        variation = max(sum((score - mean) ** 2 for score in scores[:n]), sum(variances[:n]))
        if rho2 is None:
            rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / (2000 * variation / n)
        inside = variation * rho2 + 1
        intervals.append((mean, math.sqrt(2 * inside / rho2 * math.log(math.sqrt(inside) / alpha)) / n))
    return intervals


def bounded(scores, bound, alpha):
    intervals = []
    for n in range(1, len(scores) + 1):
        squares = sum(score**2 for score in scores[:n])
        halves = []
        for power in range(1, 13):
            rate = 2.0**-power / bound
            penalty = (-math.log(1 - rate * bound) - rate * bound) / bound**2
            halves.append((math.log(2 * 12 / alpha) + penalty * squares) / rate)
        intervals.append((fmean(scores[:n]), min(halves) / n))
    return intervals


def evidence(actions, probabilities, families):
    """The largest weighted mean of likelihood ratios after any draw; families as {name: (labels, number)}."""
    tilts = [sign * tilt for sign in (1, -1) for tilt in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)]
    largest = 1.0
    for n in range(1, len(actions) + 1):
        total = 1.0
        for labels, number in families.values():
            for position, label in enumerate(dict.fromkeys(labels[:n]), start=1):
                weight = (1 / number if number else 1 / (position * (position + 1))) / len(families)
                ratios = []
                for action in range(len(probabilities[0])):
                    for tilt in tilts:
                        ratio = 1.0
                        for k in range(n):
                            if labels[k] == label:
                                chance = probabilities[k][action]
                                ratio *= math.exp(tilt * (actions[k] == action)) / (1 + chance * (math.exp(tilt) - 1))
                        ratios.append(ratio)
                total += weight * (fmean(ratios) - 1)
        largest = max(largest, total)
    return largest
