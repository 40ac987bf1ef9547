"""Pages about policies: versions, their coefficients and drift, what a policy would do, and activation."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
import sqlalchemy as sa
from fastapi import Query, Request, Response
from markupsafe import Markup
from numpy.typing import NDArray

from surefoot.data.column_kinds import Cell
from surefoot.policies.policies import Policies
from surefoot.service.api.routes import Id
from surefoot.service.dashboard import charts
from surefoot.service.dashboard.pages import (
    Actor,
    Download,
    Fields,
    PageNumber,
    Reader,
    ShortText,
    cut_page,
    go_to,
    router,
    send_csv,
)
from surefoot.service.database import clock
from surefoot.service.database.schema import decisions
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial, list_coefficients
from surefoot.service.trial.what_if import answer_question
from surefoot.service.updates import updates
from surefoot.study import Study

LOOK_BACK = timedelta(days=28)
MOST_POINTS = 2000
"""Decision points of these days on which versions are compared, the newest."""
VERSIONS = 12
"""On one page."""
HISTORY_SHOWN = 10
MOST_SETTINGS = 4
"""Levels of one category among the typical states."""
PREFIX = "state."
"""Before the name of every state variable in the address; other names are the form's own."""
LONGEST = 200
COEFFICIENT_COLUMNS = ("action", "feature", "value", "low", "high", "note")
DRIFT_COLUMNS = (
    *("version", "made at", "last went live at", "accepted", "problem", "mean probability of sending"),
    *("10 % stay below", "90 % stay below", "moved", "action", "feature", "coefficient", "low", "high"),
)
ANSWER_COLUMNS = ("what", "action", "feature", "value", "weight", "result")
VersionId = Annotated[str, Query(pattern=r"^[1-9]\d{0,8}$|^$")]


def list_policies(trial: Trial) -> list[dict[str, Any]]:
    """All policies, newest first: when they were live, and what can be done with each."""
    entries = updates.list_versions(trial)
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    for entry in entries:
        verb = "Roll back" if live is not None and entry["id"] < live else "Activate"
        entry["verb"] = verb if entry["accepted"] and entry["id"] != live else None
    return entries


def list_estimates(trial: Trial, update_id: int | None, fitted: Policies | None) -> tuple[list[dict[str, Any]], str]:
    """The coefficients with their intervals, and in words where the intervals come from."""
    if update_id is not None:
        estimates = updates.update_status(trial, update_id)["result"].get("coefficients")
        if estimates:
            return estimates["rows"], f"95 % intervals: {estimates['how']}"
    values: dict[tuple[str, str], list[float]] = {}
    for row in [] if fitted is None else list_coefficients(fitted):
        values.setdefault((row["action"], row["feature"]), []).append(row["value"])
    means: list[dict[str, Any]] = []
    for (action, feature), numbers in values.items():
        note = "" if len(numbers) == 1 else f"mean of {len(numbers)} people"
        estimate = {"value": sum(numbers) / len(numbers), "low": None, "high": None}
        means.append({"action": action, "feature": feature, **estimate, "note": note})
    return means, "no intervals were computed with this policy"


def find_drift(trial: Trial, at: datetime, page: int = 1) -> dict[str, Any]:
    """A page of versions, the oldest first, on the same states of the last weeks; the first page has the newest.

    `send` of a version is the mean probability of sending anything, and what 10 % and 90 % of the decision points stay
    below; `moved` its mean absolute change from the version before; `typical` the mean over participants in every typical
    state.
    """
    listing = cut_page(list_policies(trial), page, VERSIONS)
    people, states = _read_states(trial, at)
    everybody = np.unique(people)
    labels, typical = _find_typical_states(trial, states)
    versions: list[dict[str, Any]] = []
    last: NDArray[np.float64] | None = None
    for entry in reversed(listing.rows):
        version = trial.policies.read(entry["id"])
        fitted = None if version is None else version.policies
        drift: dict[str, Any] = {"problem": "cannot be read", "send": None, "moved": None, "typical": []}
        if fitted is not None and version is not None:
            drift["problem"] = "" if trial.can_use(version) else "made for other variables or actions"
        if fitted is not None and not drift["problem"] and len(states):
            send = _send_probabilities(trial, fitted, people, states)
            drift["send"] = (float(send.mean()), *np.quantile(send, (0.1, 0.9)).tolist())
            drift["moved"] = None if last is None else float(np.abs(send - last).mean())
            for state in typical:
                same = np.broadcast_to(state, (len(everybody), len(state)))
                drift["typical"].append(float(_send_probabilities(trial, fitted, everybody, same).mean()))
            last = send
        drift["coefficients"], _ = list_estimates(trial, entry["update_id"], fitted)
        drift["live_since"] = entry["events"][-1]["activated_at"] if entry["events"] else None
        versions.append({**entry, **drift})
    return {
        "versions": versions,
        "points": len(states),
        "people": len(everybody),
        "typical": labels,
        "listing": listing,
    }


def _read_states(trial: Trial, at: datetime) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Participants and complete states of the available decision points of the last weeks."""
    wanted = (
        sa.select(decisions.c.participant_id, decisions.c.state)
        .where(decisions.c.available, decisions.c.salt.is_not(None), decisions.c.decided_at >= at - LOOK_BACK)
        .order_by(decisions.c.received_at.desc(), decisions.c.id)
        .limit(MOST_POINTS)
    )
    with trial.database.autocommit() as connection:
        rows = [(row.participant_id, json.loads(row.state)) for row in connection.execute(wanted)]
    width = len(trial.study.state_names)
    # A state recorded under an earlier study may be shorter.
    complete = [(participant, state) for participant, state in rows if len(state) == width and None not in state]
    people = np.array([participant for participant, _ in complete], dtype=str)
    return people, np.array([state for _, state in complete], dtype=np.float64).reshape(-1, width)


def _send_probabilities(
    trial: Trial, fitted: Policies, people: NDArray[Any], states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of sending anything, within the study's limits; the warm-up's for people whom the version has no rule for."""
    send = np.full(len(people), trial.settings.warm_up_probability)
    known = fitted.covers(people)
    if known.any():
        send[known] = 1 - trial.study.clip_probabilities(fitted.probabilities(people[known], states[known]))[:, 0]
    return send


def _find_typical_states(trial: Trial, states: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64]]:
    """The state nearest to the medians, and that state with one variable at a time put low, high, or to each level."""
    if not len(states):
        return [], states
    spread = np.maximum(states.std(axis=0), 1e-9)
    middle = states[np.abs((states - np.median(states, axis=0)) / spread).sum(axis=1).argmin()]
    labels = ["the middle of the logged states"]
    typical = [middle]
    names = trial.study.state_names
    for variable, settings in trial.study.state.items():
        places = [names.index(column) for column in trial.study.state_columns[variable]]
        listed = settings.variable_kind.list_settings(states[:, places])
        for setting in listed[:MOST_SETTINGS] if listed[0].label else (listed[0], listed[-1]):
            put = middle.copy()
            put[places] = setting.columns
            labels.append(f"{variable} {setting.label or format(setting.shown, '.3g').replace('-', '−')}")
            typical.append(put)
    return labels, np.array(typical)


def draw_coefficient_drift(versions: Sequence[Mapping[str, Any]]) -> list[tuple[str, Markup]]:
    """Of every coefficient its name and its values over the versions, with 95 % intervals where they were kept."""
    labels = [f"policy {version['id']}" for version in versions]
    rows: dict[tuple[str, str], dict[int, Any]] = {}
    for position, version in enumerate(versions):
        for row in version["coefficients"]:
            rows.setdefault((row["action"], row["feature"]), {})[position] = row
    drawn = []
    for (action, feature), known in rows.items():
        estimates = {position: (row["value"], row["low"], row["high"]) for position, row in known.items()}
        ends = [0.0, *(end for estimate in estimates.values() for end in estimate if end is not None)]
        scale = charts.Scale.around(ends, charts.format_change)
        listing = "; ".join(f"{labels[position]} {charts.describe_coefficient(row)}" for position, row in known.items())
        words = f"Coefficient of {feature} for {action} by policy version: {listing}."
        zero = charts.LINE.format("zero", 0, scale.place(0), 100, scale.place(0))
        values = [estimates.get(position) for position in range(len(versions))]
        drawn.append((f"{action}: {feature}", charts.draw_lines(labels, {feature: values}, words, scale, [zero])))
    return drawn


def read_fields(study: Study, given: Mapping[str, str]) -> tuple[list[dict[str, Any]], dict[str, Cell], dict[str, float]]:
    """A field of the form for every state variable, and the context and derived states that they give; empty is missing."""
    fields = []
    context: dict[str, Cell] = {}
    derived: dict[str, float] = {}
    for name, variable in study.state.items():
        kind = variable.variable_kind
        text = given.get(PREFIX + name, "").strip()
        if len(text) > LONGEST:
            raise ApiError(422, "invalid", f"what is given for {name} is too long")
        about = f"computed: {variable.derived}" if variable.derived else kind.describe()
        field = {"name": name, "about": about, "choices": kind.choices, "derived": variable.derived, "text": text}
        fields.append(field)
        if not text:
            continue
        value = kind.from_text(text)
        if not variable.derived:
            context[name] = value
        elif isinstance(value, float):
            derived[name] = value
        else:
            raise ApiError(422, "wrong_type", f"{name} is a number")
    return fields, context, derived


@router.get("/policies")
def policies_page(viewer: Reader, page: PageNumber = 1, download: Download = "") -> Response:
    """The live policy's coefficients, and the history."""
    return _show_policy(viewer, None, page, download)


@router.get("/policies/drift")
def drift_page(viewer: Reader, page: PageNumber = 1, download: Download = "") -> Response:
    """How far the policy moved, and when."""
    drift = find_drift(viewer.trial, clock.now(), page)
    versions = drift["versions"]
    if download:
        rows = []
        for version in versions:
            facts = [version[name] for name in ("id", "created_at", "live_since", "accepted", "problem")]
            facts += [*(version["send"] or (None,) * 3), version["moved"]]
            # A version without any coefficient has a row too.
            for row in version["coefficients"] or [dict.fromkeys(COEFFICIENT_COLUMNS)]:
                rows.append([*facts, *(row[name] for name in COEFFICIENT_COLUMNS[:-1])])
        return send_csv(viewer, "policy-drift", DRIFT_COLUMNS, rows)
    known = [version for version in versions if version["send"] is not None]
    means = "; ".join(f"policy {version['id']} {charts.write_share(version['send'][0])}" for version in known)
    limits = viewer.trial.study.probability_limits
    return viewer.page(
        "drift",
        drift=drift,
        send_chart=charts.draw_lines(
            [f"policy {version['id']}" for version in versions],
            {"mean probability": [version["send"] for version in versions]},
            f"Mean probability of sending by policy version, on the same {drift['points']} decision points: {means}.",
            marks=charts.draw_limits((limits.minimum, limits.maximum)),
            interval="80 % of the decision points between",
        ),
        coefficient_charts=draw_coefficient_drift(versions),
        days=LOOK_BACK.days,
    )


@router.get("/policies/{policy_id}")
def policy_page(policy_id: Id, viewer: Reader, page: PageNumber = 1, download: Download = "") -> Response:
    """One policy, live or not."""
    return _show_policy(viewer, policy_id, page, download)


def _show_policy(viewer: Reader, policy_id: int | None, page: int, download: Download) -> Response:
    """A policy, or the live one, with its coefficients and intervals and how its rule decides; and the history."""
    entries = list_policies(viewer.trial)
    live = next((entry for entry in entries if entry["live"]), None)
    shown = live if policy_id is None else _find_policy(entries, policy_id)
    estimates: list[dict[str, Any]] = []
    if shown is not None:
        version = viewer.trial.policies.get(shown["id"])
        fitted = None if version is None else version.policies
        estimates, how = list_estimates(viewer.trial, shown["update_id"], fitted)
        people = None if fitted is None or fitted.participants is None else len(fitted.participants)
        shown |= {"readable": fitted is not None, "people": people, "estimates": estimates, "how": how}
        shown["decides"] = "" if fitted is None else fitted.rule.how
    if download:
        return send_csv(viewer, f"policy-{shown['id']}" if shown else "policies", COEFFICIENT_COLUMNS, estimates)
    once_live = [entry for entry in entries if entry["events"] and entry is not live]
    return viewer.page(
        "policies",
        shown=shown,
        chart=charts.draw_coefficients(estimates) if estimates else None,
        listing=cut_page(entries, page, HISTORY_SHOWN),
        before=max(once_live, key=lambda entry: entry["events"][-1]["id"], default=None),
    )


def _find_policy(entries: list[dict[str, Any]], policy_id: int) -> dict[str, Any]:
    entry = next((entry for entry in entries if entry["id"] == policy_id), None)
    if entry is None:
        raise ApiError(404, "unknown_policy", "there is no such policy")
    return entry


@router.get("/what-if")
def what_if_page(
    viewer: Reader,
    request: Request,
    participant: ShortText = "",
    version: VersionId = "",
    available: Literal["yes", "no"] = "yes",
    download: Download = "",
) -> Response:
    """What a policy would do in a state; nothing is drawn, and nothing is kept."""
    trial = viewer.trial
    fields, context, derived = read_fields(trial.study, request.query_params)
    answer = None
    if any(name.startswith(PREFIX) for name in request.query_params):
        chosen = int(version) if version else None
        person = participant.strip()
        answer = answer_question(
            trial, context, derived, clock.now(), participant_id=person, policy_id=chosen, available=available == "yes"
        )
    names = trial.study.actions.names
    if download and answer is not None:
        kinds = (("before limits", answer.before_limits), ("probability", answer.choice.probabilities))
        rows: list[tuple[Any, ...]] = [
            (kind, action, None, None, None, probability)
            for kind, probabilities in kinds
            for action, probability in zip(names, probabilities or (), strict=False)
        ]
        rows += [("term", term.action, term.feature, term.value, term.weight, term.contribution) for term in answer.terms]
        return send_csv(viewer, "what-if", ANSWER_COLUMNS, rows)
    return viewer.page(
        "what_if",
        fields=fields,
        answer=answer,
        names=names,
        prefix=PREFIX,
        participant=participant,
        version=version,
        available=available,
        versions=[entry for entry in list_policies(trial) if entry["accepted"]],
        limits=trial.study.probability_limits,
    )


@router.get("/policies/{policy_id}/activate")
def ask_to_activate(policy_id: Id, viewer: Reader) -> Response:
    """Say what would change before it does."""
    entries = list_policies(viewer.trial)
    live = next((entry for entry in entries if entry["live"]), None)
    return viewer.page("activate", entry=_find_policy(entries, policy_id), live=live)


@router.post("/policies/{policy_id}/activate")
def activate(policy_id: Id, viewer: Actor, fields: Fields) -> Response:
    """Put a policy live, if the live policy is still the one that the admin saw."""
    live = viewer.trial.policies.live()
    if fields.get("live", "") != ("" if live is None else str(live[0])):
        raise ApiError(409, "changed", "another policy went live meanwhile; look at the history and decide again")
    updates.activate_policy(viewer.trial, policy_id, viewer.caller.name)
    return go_to("/policies")
