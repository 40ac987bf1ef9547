"""The tables of docs/heartsteps-v1.md that no command prints.

    python examples/heartsteps_v1.py suggestions.csv

What the cap removes from HeartSteps V1, by outcome and pooling; how sure the policies are; the plain effect of a suggestion.
"""

import sys
import warnings

import numpy as np

import surefoot as sf
from surefoot.datasets.heartsteps_v1 import study_text

RESAMPLES = 2000


def main() -> None:
    data = sf.datasets.heartsteps_v1(sys.argv[1])
    # Many people never change their location in the data; here that is known.
    warnings.simplefilter("ignore", sf.FitWarning)
    print("outcome            pooling  removed  untreated  treated  share of steps  above the fit  zeros")
    for transform in ("none", "log(x + 0.5)"):
        for pooling in ("all", "person"):
            removed(data, transform, pooling)
    print("\nactor_penalty: probability of sending, 10th to 90th percentile (log steps, pooled)")
    for penalty in (0.001, 0.01, 0.1):
        method = fitted(data, "log(x + 0.5)", "all", actor_penalty=penalty)
        rows = data.logs.usable
        send = method.policies_.probabilities(data.logs.participant[rows], data.logs.state[rows])[:, 1]
        print(f"{penalty:>13}: {np.quantile(send, 0.1):.2f} to {np.quantile(send, 0.9):.2f}")
    print("\nsent minus not sent, 95 % interval from resampled people")
    day = np.array(data.frame["day"])
    for name, days in (("all", day >= 0), ("days 0-6", day < 7), ("days 28-41", day >= 28)):
        steps, logarithm = (effect(data.logs, days, scale) for scale in (lambda x: x, lambda x: np.log(x + 0.5)))
        print(f"{name:<12} steps {steps}   log {logarithm}")


def fitted(data, transform, pooling, **parameters):
    text = study_text().replace('pooling = "all"', f'pooling = "{pooling}"')
    method = sf.Study.parse(text).method()
    for name, value in parameters.items():
        setattr(method, name, value)
    outcome = data.logs.outcome if transform == "none" else np.log(data.logs.outcome + 0.5)
    return method.fit(data.logs.with_values(outcome=outcome))


def removed(data, transform, pooling):
    method, steps, action = fitted(data, transform, pooling), data.logs.outcome, data.logs.action
    used, out = ~np.isnan(method.weights_), method.weights_ == 0
    shares = [out[used].mean(), *(out[used & (action == code)].mean() for code in (0, 1))]
    shares += [steps[out].sum() / steps[used].sum(), (method.residuals_[out] > 0).mean(), (steps[out] == 0).mean()]
    print(
        f"{transform:<17} {pooling:<7}"
        + "".join(f"{share:>{w}.1%}" for share, w in zip(shares, (9, 11, 9, 16, 15, 7), strict=True))
    )


def effect(logs, rows, transform):
    rows = rows & logs.available & ~np.isnan(logs.outcome)
    value, sent, participant, people = (
        transform(logs.outcome[rows]),
        logs.action[rows] == 1,
        logs.participant_index[rows],
        len(logs.participants),
    )

    def difference(times):
        weight = times[participant]
        return np.average(value[sent], weights=weight[sent]) - np.average(value[~sent], weights=weight[~sent])

    rng = np.random.default_rng(0)
    drawn = [difference(np.bincount(rng.integers(0, people, people), minlength=people)) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{difference(np.ones(people)):.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
