"""Explaining a fitted policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from surefoot.audit import Audit
from surefoot.errors import InputError
from surefoot.explain.coefficients import OWN_PEOPLE, estimate_coefficients, find_influences
from surefoot.explain.consequences import find_consequences
from surefoot.explain.differences import find_differences
from surefoot.explain.disagreements import find_disagreements
from surefoot.explain.explained_policy import ExplainedPolicy
from surefoot.explain.policy_card import Card, make_card
from surefoot.explain.response import choose_variables, measure_importances, trace_curves
from surefoot.explain.time_courses import compute_send_probability, count_courses
from surefoot.explain.variables import find_variables
from surefoot.inference.intervals import sum_by_participant
from surefoot.learning.methods import Method
from surefoot.numerics.parallel import Progress
from surefoot.reports.summaries import ShownResult
from surefoot.study import Study

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ExplainedPolicy, ShownResult):
    """A policy explained.

    Attributes
    ----------
    fitted, study, audit
        What is explained, and what it was explained with.
    variables
        The state variables as people know them, a category as one.
    coefficients
        Of critic and policy, with intervals, and everybody's own.
    curves
        How the probability of every action answers to each state variable that the policy sees.
    disagreements
        Features whose effect and whose part in the policy have opposite signs.
    importances
        Shares of the variance of the policy's logit.
    courses
        How many people would be treated when.
    send_rates
        Each participant's mean probability of being sent something; NaN without usable decision points.
    send_rate, logged_rate
        The mean of that over decision points, and the share at which something was sent.
    consequences
        What each action does now and later; empty with an immediate horizon.
    left_out
        Parts of the explanation that were left out because the policy has many coefficients, in sentences.
    """

    page_title: ClassVar[str] = "Policy card"

    def card(self, title: str = "Policy card") -> Card:
        """The policy in words."""
        return make_card(self, title)

    def print_summary(self, console: Console) -> None:
        from surefoot.explain.summary import print_explanation

        print_explanation(self, console)

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.explain.page import render_page

        return render_page(self, title=title, source=source)

    def __repr__(self) -> str:
        most = max(self.curves, key=lambda curve: curve.largest_change, default=None)
        moved = "" if most is None else f"; {most.variable} moves a probability by {100 * most.largest_change:.0f} points"
        audit = "not audited" if self.audit is None else f"audit: {self.audit.verdict}"
        return (
            f"<Explanation of {self.method_name}: {self.people} people; sends at {100 * self.send_rate:.0f} % of decision "
            f"points, the logs at {100 * self.logged_rate:.0f} %{moved}; {audit}>"
        )


def explain(
    fitted: Method,
    *,
    study: Study | None = None,
    audit: Audit | None = None,
    draws: int = 200,
    seed: int = 0,
    most_people: int | None = OWN_PEOPLE,
    progress: Progress | None = None,
) -> Explanation:
    """Explain a fitted method.

    Parameters
    ----------
    fitted
        A method after `fit`.
    study
        Says what the state variables are (so that they are shown in their own units, a category as one), between which
        limits probabilities stay, and what the reward is. Without it variables are guessed from their values.
    audit
        Of the same fit; its verdict then stands on the policy card.
    draws
        Resamplings for a participant's own interval.
    seed
        Root of the random numbers.
    most_people
        Own intervals are computed for at most so many people, drawn at random; None means everybody.
    progress
        Told how many of these people are done, of how many.

    Returns
    -------
    Explanation
        Coefficients, response curves, importances, policy card and page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> found = explain(sf.method("ro-saccb", pooling="all").fit(logs))
    >>> found.importances[0].feature
    'engagement'
    """
    logs, used = fitted.logs_, fitted.used_
    if not used.any():
        raise InputError("no decision point was usable, so there is no policy to explain; see which columns are missing")
    clip: Callable[..., np.ndarray] | None = None if study is None else study.clip_probabilities
    send, people = compute_send_probability(fitted, clip), len(logs.participants)
    count = sum_by_participant(logs.participant_index[used], people, np.ones(int(used.sum())))
    sums = sum_by_participant(logs.participant_index[used], people, send[used])
    variables = find_variables(logs, None if study is None else study.variable_kinds)
    influences = find_influences(fitted) if fitted.pooled_ and int((count > 0).sum()) > 1 else None
    coefficients = estimate_coefficients(
        fitted, draws=draws, seed=seed, most_people=most_people, progress=progress, influences=influences
    )
    importances = measure_importances(fitted, variables)
    chosen = choose_variables(fitted, variables, importances)
    curves = trace_curves(fitted, chosen, clip=clip, seed=seed, influences=influences)
    return Explanation(
        fitted=fitted,
        study=study,
        audit=audit,
        variables=variables,
        coefficients=coefficients,
        curves=curves,
        disagreements=find_disagreements(coefficients, curves, logs.action_names),
        importances=importances,
        courses=count_courses(fitted, send),
        send_rates=np.where(count > 0, sums / np.where(count > 0, count, 1.0), np.nan),
        send_rate=float(send[used].mean()),
        logged_rate=float((logs.action[used] > 0).mean()),
        consequences=find_consequences(fitted),
        differences=find_differences(fitted),
    )
