"""Checks of a look-ahead: whether states react to the actions at all, and whether what follows is stable.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

from surefoot.audit.measures import Measures
from surefoot.learning.horizon.consequences import SURE, PooledView
from surefoot.learning.horizon.look_ahead import MOST_RADIUS
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_number

RADIUS_LOOK = 0.95
"""A state of which so much carries over to the next decision point is felt for sixty of them."""


def check_horizon(measures: Measures) -> tuple[Check, ...]:
    """Nothing for a method that looks at the next outcome only."""
    outlook = measures.fitted.outlook_
    if outlook is None:
        return ()
    view = PooledView.of_outlook(outlook)
    return _check_reactions(measures, view), _check_stability(view)


def _check_reactions(measures: Measures, view: PooledView) -> Check:
    logs, found = measures.fitted.logs_, view.reactions
    sure = [reaction for reaction in found if reaction.p_value < SURE / len(found)]
    numbers = {
        f"{logs.state_names[one.variable]}, {logs.action_names[one.action]}": {
            "shift": one.shift.value,
            "standard_error": one.shift.standard_error,
            "p_value": one.p_value,
        }
        for one in found
    }
    if not sure:
        least = min(found, key=lambda one: one.p_value)
        return Check(
            "states react",
            "unsafe",
            "no state variable reacts to the actions (least p-value "
            f"{least.p_value:.2g}, {logs.state_names[least.variable]}), so looking ahead only adds noise",
            "add a state that remembers, such as a dose of prompts, or use horizon = 'immediate'",
            numbers,
        )
    named = [
        f"{logs.state_names[one.variable]} to {logs.action_names[one.action]} ({format_number(one.shift.value)} at the next "
        "decision point)"
        for one in sure
    ]
    return Check("states react", "fine", f"what reacts: {', '.join(named)}", "", numbers)


def _check_stability(view: PooledView) -> Check:
    radius = float(view.model.radius[0])
    verdict = "unsafe" if radius > MOST_RADIUS else "look" if radius > RADIUS_LOOK else "fine"
    reason = f"{100 * radius:.0f} % of the state carries over from one decision point to the next (spectral radius)"
    remedy = "take out a state that only grows, such as a count or the day in the study: its long-run worth is a guess"
    return Check("long run is stable", verdict, reason, remedy if verdict != "fine" else "", {"radius": radius})
