"""Updates and policies as the dashboard shows them: what was removed and why, coefficients with intervals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from surefoot.policies.policies import Policies
from surefoot.service.dashboard.charts import ShownCoefficient
from surefoot.service.database.schema import activations, policies
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.policy_versions import coefficients
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import queries

SHOWN = 100


def list_removed_rows(trial: Trial, status: dict[str, Any]) -> dict[str, Any]:
    """The outliers of an update: rows, how many of each participant, how many more than are listed."""
    result = status["result"]
    listed = result.get("removed_rows", [])
    names = trial.study.actions.names
    shown = [row for row in listed if row["reward"] is not None][:SHOWN]  # others were erased since
    rows = [{**row, "action_name": names[row["action"]], "why": _why(row)} for row in shown]
    people = Counter(row["participant_id"] for row in listed)
    return {"rows": rows, "people": people.most_common(10), "total": result.get("removed", 0), "listed": len(rows)}


def _why(row: dict[str, Any]) -> str:
    difference = row["reward"] - row["expected"]
    side = "above" if difference > 0 else "below"
    limit = "" if row["limit"] is None else f", more than the {row['limit']:,.4g} allowed"
    return f"{abs(difference):,.4g} {side} what was expected{limit}"


def list_policies(trial: Trial) -> list[dict[str, Any]]:
    """All policies, newest first: when they were live, what can be done with each. Without their content, which is large."""
    columns = (policies.c.id, policies.c.created_at, policies.c.update_id, policies.c.accepted)
    with trial.database.snapshot() as connection:
        rows = connection.execute(sa.select(*columns).order_by(policies.c.id.desc())).mappings().all()
        events = connection.execute(sa.select(activations).order_by(activations.c.id)).mappings().all()
    live = events[-1]["policy_id"] if events else None
    return [_entry(row, [event for event in events if event["policy_id"] == row["id"]], live) for row in rows]


def _entry(row: Any, events: list[Any], live: int | None) -> dict[str, Any]:
    possible = row["accepted"] and row["id"] != live
    older = live is not None and row["id"] < live
    verb = None if not possible else "Roll back" if older else "Activate"
    return {**row, "live": row["id"] == live, "events": events, "verb": verb}


def describe_policy(trial: Trial, policy_id: int) -> dict[str, Any]:
    """One policy with its coefficients and intervals, and how its rule decides."""
    entry = next((listed for listed in list_policies(trial) if listed["id"] == policy_id), None)
    if entry is None:
        raise ApiError(404, "unknown_policy", "there is no such policy")
    version = trial.policies.get(policy_id)
    made = None if version is None else version.policies
    rows, how = list_estimates(trial, entry["update_id"], made)
    people = None if made is None or made.participants is None else len(made.participants)
    decides = "" if made is None else made.rule.how
    return {
        **entry,
        "readable": made is not None,
        "people": people,
        "estimates": rows,
        "how": how,
        "decides": decides,
    }


def list_estimates(trial: Trial, update_id: int | None, made: Policies | None) -> tuple[list[ShownCoefficient], str]:
    """The coefficients with their intervals, and in words where the intervals come from."""
    if update_id is not None:
        estimates = queries.update_status(trial, update_id)["result"].get("coefficients")
        if estimates:
            return [ShownCoefficient(**row) for row in estimates["rows"]], f"95 % intervals: {estimates['how']}"
    values: dict[tuple[str, str], list[float]] = {}
    for row in [] if made is None else coefficients(made):
        values.setdefault((row["action"], row["feature"]), []).append(row["value"])
    means = [
        ShownCoefficient(
            *name, sum(numbers) / len(numbers), None, None, "" if len(numbers) == 1 else f"mean of {len(numbers)} people"
        )
        for name, numbers in values.items()
    ]
    return means, "no intervals were computed with this policy"


def find_previous(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The policy that was live before the one that is."""
    events = sorted((event["id"], entry["id"]) for entry in entries for event in entry["events"])
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    earlier = [policy_id for _, policy_id in events if policy_id != live]
    return next((entry for entry in entries if earlier and entry["id"] == earlier[-1]), None)
