"""A trial with a pooled least-squares learner, and the stacked equations of the adaptive sandwich by differences.

Written from Zhang, Janson and Murphy (arXiv 2202.07098 and 2407.15377) alone. `adaptive_case1.csv.gz` is a trial that
`lifejacket`, the authors' Python package, simulates in its own tests; PUBLISHED holds what it computes from it, in single
precision.
"""

import gzip
from pathlib import Path

import numpy as np

from surefoot.inference.adaptive_sandwich import TrialEquations, adaptive_covariance, update_by_differences

CASE = Path(__file__).with_name("adaptive_case1.csv.gz")
PUBLISHED = {
    "theta": [0.0209047, 0.6568022, 0.0724988, 0.0155097],
    "adaptive": [
        [0.0011247976, -0.0001150199, -0.0001630554, 0.0010712565],
        [-0.0001150199, 0.0007434330, -0.0001299757, -0.0003767948],
        [-0.0001630554, -0.0001299757, 0.0041113221, 0.0001478786],
        [0.0010712565, -0.0003767948, 0.0001478786, 0.0041163014],
    ],
}


def expit(x):
    return 1 / (1 + np.exp(-x))


class PooledTrial:
    """Least squares of all outcomes so far on [1, s, a, a·s]; P(1 | s) = expit(steepness (β₃ + β₄ s)), clipped.

    The analysis is least squares of the outcome on [1, s, a − p, (a − p) s]. Rows are sorted by person and time.
    """

    def __init__(self, person, time, version, state, action, outcome, *, steepness=3.0, limits=(0.1, 0.9)):
        self.person = person
        self.time = time
        self.version = version
        self.state = state
        self.action = action
        self.outcome = outcome
        self.people = person.max() + 1
        self.steepness = steepness
        self.limits = limits
        self.design = np.column_stack([np.ones_like(state), state, action, action * state])
        self.versions = [number for number in np.unique(version) if number > version.min()]
        self.parameters = {
            number: np.linalg.lstsq(self.design[self.before(number)], outcome[self.before(number)], rcond=None)[0]
            for number in self.versions
        }
        self.theta = np.linalg.lstsq(self.centre(self.send()), outcome, rcond=None)[0]

    @classmethod
    def published(cls):
        with gzip.open(CASE, "rt") as file:
            data = np.genfromtxt(file, delimiter=",", names=True)
        columns = ("calendar_t", "policy_num", "past_reward", "action", "reward")
        return cls(data["user_id"].astype(int) - 1, *(data[name] for name in columns))

    @classmethod
    def simulate(cls, rng, people=12, points=9, every=3, growth=0.2):
        """Effects that grow with the number of prompts so far; half of the people enter later."""
        entry = (np.arange(people) % 2) * every
        person = np.repeat(np.arange(people), points)
        time = np.tile(np.arange(points), people) + entry[person]
        state = rng.standard_normal(len(person))
        noise = rng.standard_normal(len(person))
        uniform = rng.random(len(person))
        action = np.zeros(len(person))
        outcome = np.zeros(len(person))
        dose = np.zeros(people)
        version = np.maximum((time - every) // every, 0)
        for moment in range(time.max() + 1):
            now = time == moment
            send = np.full(len(person), 0.5)
            if version[now].max() > 0:
                known = time < every * (version[now][0] + 1)
                design = np.column_stack([np.ones_like(state), state, action, action * state])
                beta = np.linalg.lstsq(design[known], outcome[known], rcond=None)[0]
                send = np.clip(expit(3 * (beta[2] + beta[3] * state)), 0.1, 0.9)
            action[now] = uniform[now] < send[now]
            outcome[now] = 0.3 * state[now] + growth * action[now] * dose[person[now]] + noise[now]
            dose[person[now]] = 0.8 * dose[person[now]] + action[now]
        return cls(person, time, version, state, action, outcome)

    def before(self, number):
        return self.time < self.time[self.version == number].min()

    def probability(self, beta, rows):
        return np.clip(expit(self.steepness * (beta[2] + beta[3] * self.state[rows])), *self.limits)

    def send(self, parameters=None):
        """The probability of action 1 at every row."""
        send = np.full(len(self.state), 0.5)
        for number, beta in (parameters or self.parameters).items():
            rows = self.version == number
            send[rows] = self.probability(beta, rows)
        return send

    def centre(self, send):
        centred = self.action - send
        return np.column_stack([np.ones_like(send), self.state, centred, centred * self.state])

    def sum_by_person(self, values):
        sums = np.zeros((self.people, values.shape[1]))
        np.add.at(sums, self.person, values)
        return sums

    def list_updates(self):
        """By the package."""
        for number in self.versions:
            decided = np.flatnonzero(self.version == number)
            before = self.before(number)

            def equations(beta, before=before):
                return self.design * ((self.outcome - self.design @ beta) * before)[:, None]

            def probabilities(beta, decided=decided):
                send = self.probability(beta, decided)
                return np.column_stack([1 - send, send])

            yield update_by_differences(
                self.parameters[number],
                equations,
                probabilities,
                participants=self.people,
                before=before,
                decided=decided,
                action=self.action[decided].astype(int),
            )

    def make_equations(self):
        """Of the analysis, for the package."""
        send = self.send()
        x = self.centre(send)
        residual = self.outcome - x @ self.theta
        moved = np.column_stack([0 * send, 0 * send, -np.ones_like(send), -self.state])
        by_send = moved * residual[:, None] - x * (moved @ self.theta)[:, None]
        # p = send where action 1 was taken, else 1 − send.
        by_log = by_send * (send - (1 - self.action))[:, None]
        return TrialEquations(self.person, x.T @ x, x * residual[:, None], by_log)

    def covariance(self, **options):
        """By the package."""
        return adaptive_covariance(self.make_equations(), self.list_updates(), **options)

    def stack(self, stacked):
        """g_i of all parameters after each other, (people, parameters), weighted by all decisions before each update."""
        blocks = np.split(stacked, len(stacked) // 4)
        parameters = dict(zip(self.versions, blocks, strict=False))
        ratio = self.send(parameters) / self.send()
        other = (1 - self.send(parameters)) / (1 - self.send())
        logarithm = np.log(np.where(self.action == 1, ratio, other))[:, None]
        equations = []
        for number, beta in parameters.items():
            before = self.before(number)
            weight = np.exp(self.sum_by_person(logarithm * before[:, None]))
            residual = (self.outcome - self.design @ beta) * before
            equations.append(weight * self.sum_by_person(self.design * residual[:, None]))
        x = self.centre(self.send(parameters))
        residual = self.outcome - x @ blocks[-1]
        equations.append(np.exp(self.sum_by_person(logarithm)) * self.sum_by_person(x * residual[:, None]))
        return np.concatenate(equations, axis=1)

    def literal_covariance(self):
        """J⁻¹ M J⁻ᵀ / n of θ, J by differences of the whole stack."""
        estimates = np.concatenate([*self.parameters.values(), self.theta])
        columns = []
        for number in range(len(estimates)):
            step = np.zeros_like(estimates)
            step[number] = 1e-6
            difference = self.stack(estimates + step).mean(axis=0) - self.stack(estimates - step).mean(axis=0)
            columns.append(difference / 2e-6)
        influences = np.linalg.solve(np.stack(columns, axis=1), self.stack(estimates).T)
        return (influences @ influences.T / self.people**2)[-4:, -4:]
