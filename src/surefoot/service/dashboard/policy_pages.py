"""Pages about policies: versions, their coefficients and drift, what a policy would do, and activation."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
import sqlalchemy as sa
from fastapi import Query, Request, Response
from markupsafe import Markup
from numpy.typing import NDArray

from surefoot.data.column_kinds import Cell
from surefoot.policies.policies import Policies
from surefoot.service.dashboard.access import (
    Actor,
    Before,
    Download,
    Fields,
    Id,
    ParticipantId,
    Reader,
    Viewer,
    go_to,
    router,
    send_csv,
)
from surefoot.service.dashboard.charts import (
    SHARE,
    Scale,
    Series,
    ShownCoefficient,
    draw_coefficients,
    draw_limits,
    draw_series,
    format_change,
    write_share,
)
from surefoot.service.database import clock
from surefoot.service.database.schema import decisions
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial, list_coefficients
from surefoot.service.trial.what_if import Answer, Question, answer_question
from surefoot.service.updates import policy_versions, updates
from surefoot.study import Study

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
    """All policies, newest first: when they were live, and what can be done with each."""
    entries = policy_versions.list_versions(trial)
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    for entry in entries:
        verb = "Roll back" if live is not None and entry["id"] < live else "Activate"
        entry["verb"] = verb if entry["accepted"] and entry["id"] != live else None
    return entries


def describe_policy(trial: Trial, policy_id: int) -> dict[str, Any]:
    """One policy with its coefficients and intervals, and how its rule decides."""
    entry = next((listed for listed in list_policies(trial) if listed["id"] == policy_id), None)
    if entry is None:
        raise ApiError(404, "unknown_policy", "there is no such policy")
    version = trial.policies.get(policy_id)
    made = None if version is None else version.policies
    rows, how = list_estimates(trial, entry["update_id"], made)
    people = None if made is None or made.participants is None else len(made.participants)
    description = {"readable": made is not None, "people": people, "decides": "" if made is None else made.rule.how}
    return {**entry, **description, "estimates": rows, "how": how}


def list_estimates(trial: Trial, update_id: int | None, made: Policies | None) -> tuple[list[ShownCoefficient], str]:
    """The coefficients with their intervals, and in words where the intervals come from."""
    if update_id is not None:
        estimates = updates.update_status(trial, update_id)["result"].get("coefficients")
        if estimates:
            return [ShownCoefficient(**row) for row in estimates["rows"]], f"95 % intervals: {estimates['how']}"
    values: dict[tuple[str, str], list[float]] = {}
    for row in [] if made is None else list_coefficients(made):
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


LOOK_BACK = timedelta(days=28)
MOST_POINTS = 2000
"""Decision points of these days on which versions are compared, the newest."""
VERSIONS = 24
"""On one page."""
MOST_SETTINGS = 4
"""Levels of one category among the typical states."""


@dataclass(frozen=True)
class VersionDrift:
    """One version beside the one before it, on the same states."""

    id: int
    created_at: datetime
    live_since: datetime | None
    """When it last went live; None for one that never did."""
    is_live: bool
    accepted: bool
    problem: str
    """Why it cannot be compared; empty when it can."""
    send: tuple[float, float, float] | None
    """Mean probability of sending anything, and the probabilities that 10 % and 90 % of the decision points stay below."""
    moved: float | None
    """Mean absolute change of that probability from the version before."""
    typical: list[float]
    """Of every typical state, the mean over participants."""
    coefficients: list[ShownCoefficient]


@dataclass(frozen=True)
class Drift:
    """Versions, the oldest first, on the states of the last weeks."""

    versions: list[VersionDrift]
    points: int
    people: int
    typical: list[str]
    """Names of the typical states."""
    earlier: int | None
    """The oldest version shown, when there are older ones."""

    @property
    def terms(self) -> list[tuple[str, str]]:
        """(action, feature) of every coefficient that any version has."""
        return list(dict.fromkeys((row.action, row.feature) for version in self.versions for row in version.coefficients))


def find_drift(trial: Trial, at: datetime, before: int | None = None) -> Drift:
    """The newest versions, or those below a number."""
    entries = [policy for policy in list_policies(trial) if before is None or policy["id"] < before]
    shown = list(reversed(entries[:VERSIONS]))
    people, states = _read_states(trial, at)
    labels, typical = _find_typical_states(trial, states)
    versions: list[VersionDrift] = []
    last: NDArray[np.float64] | None = None
    for entry in shown:
        version = trial.policies.read(entry["id"])
        made = None if version is None else version.policies
        usable = version is not None and trial.can_use(version)
        problem = "" if usable else "cannot be read" if version is None else "made for other variables or actions"
        send = None if made is None or not usable else _send_probabilities(trial, made, people, states)
        moved = None if send is None or last is None or not len(send) else float(np.abs(send - last).mean())
        settings = [] if made is None or not usable else _average_typical(trial, made, people, typical)
        rows, _ = list_estimates(trial, entry["update_id"], made)
        live = entry["events"][-1]["activated_at"] if entry["events"] else None
        facts = (entry["id"], entry["created_at"], live, entry["live"], entry["accepted"], problem)
        versions.append(VersionDrift(*facts, _summarise(send), moved, settings, rows))
        last = send if send is not None else last
    has_earlier = len(entries) > len(shown)
    return Drift(versions, len(states), len(set(people.tolist())), labels, shown[0]["id"] if shown and has_earlier else None)


def _summarise(send: NDArray[np.float64] | None) -> tuple[float, float, float] | None:
    if send is None or not len(send):
        return None
    low, high = np.quantile(send, (0.1, 0.9))
    return float(send.mean()), float(low), float(high)


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
    trial: Trial, made: Policies, people: NDArray[Any], states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of sending anything, within the study's limits; the warm-up's for people whom the version has no rule for."""
    send = np.full(len(people), trial.settings.warm_up_probability)
    known = made.covers(people)
    if known.any():
        send[known] = 1 - trial.study.clip_probabilities(made.probabilities(people[known], states[known]))[:, 0]
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
        places = [names.index(column) for column in trial.study.columns_of(variable)]
        listed = settings.variable_kind.list_settings(states[:, places])
        for setting in listed[:MOST_SETTINGS] if listed[0].label else (listed[0], listed[-1]):
            put = middle.copy()
            put[places] = setting.columns
            labels.append(f"{variable} {setting.label or format(setting.shown, '.3g').replace('-', '−')}")
            typical.append(put)
    return labels, np.array(typical)


def _average_typical(trial: Trial, made: Policies, people: NDArray[Any], typical: NDArray[np.float64]) -> list[float]:
    everybody = np.unique(people)
    return [
        float(_send_probabilities(trial, made, everybody, np.broadcast_to(state, (len(everybody), len(state)))).mean())
        for state in typical
    ]


def list_drift_cells(drift: Drift) -> list[Sequence[Any]]:
    """A row for every coefficient of every version; one without any has a row too."""
    rows: list[Sequence[Any]] = []
    for version in drift.versions:
        facts = (
            *(version.id, version.created_at, version.live_since, version.accepted, version.problem),
            *(*(version.send or (None,) * 3), version.moved),
        )
        rows += [(*facts, row.action, row.feature, row.value, row.low, row.high) for row in version.coefficients]
        rows += [] if version.coefficients else [(*facts, *(None,) * 5)]
    return rows


DRIFT_COLUMNS = (
    *("version", "made at", "last went live at", "accepted", "problem", "mean probability of sending"),
    *("10 % stay below", "90 % stay below", "moved", "action", "feature", "coefficient", "low", "high"),
)


def _label_versions(drift: Drift) -> list[str]:
    return [f"policy {version.id}" for version in drift.versions]


def draw_send_drift(drift: Drift, limits: tuple[float, float]) -> Markup:
    """The mean probability of sending of every version on the same states."""
    values = [drawn.send for drawn in drift.versions]
    series = Series("mean probability", values, interval="80 % of the decision points between")
    known = [(drawn.id, drawn.send[0]) for drawn in drift.versions if drawn.send is not None]
    means = "; ".join(f"policy {version} {write_share(mean)}" for version, mean in known)
    words = f"Mean probability of sending by policy version, on the same {drift.points} decision points: {means}."
    return draw_series(_label_versions(drift), [series], SHARE, words, draw_limits(limits))


def draw_coefficient_drift(drift: Drift) -> list[tuple[str, Markup]]:
    """Of every coefficient its name and its values over the versions, with 95 % intervals where they were kept."""
    drawn = []
    for action, feature in drift.terms:
        rows = [
            {(row.action, row.feature): row for row in version.coefficients}.get((action, feature))
            for version in drift.versions
        ]
        values = [None if row is None else (row.value, row.low, row.high) for row in rows]
        ends = [0.0, *(end for estimate in values if estimate is not None for end in estimate if end is not None)]
        scale = Scale.around(ends, format_change)
        listing = "; ".join(
            f"policy {version.id} {row.words}" for version, row in zip(drift.versions, rows, strict=True) if row
        )
        words = f"Coefficient of {feature} for {action} by policy version: {listing}."
        zero = Markup('<line class="zero" x1="0" y1="{0:.1f}" x2="100%" y2="{0:.1f}"/>').format(scale.place(0.0))
        drawn.append(
            (f"{action}: {feature}", draw_series(_label_versions(drift), [Series(feature, values)], scale, words, [zero]))
        )
    return drawn


PREFIX = "state."
"""Before the name of every state variable in the address; other names are the form's own."""
LONGEST = 200
ANSWER_COLUMNS = ("what", "action", "feature", "value", "weight", "result")


@dataclass(frozen=True)
class FormField:
    """One state variable."""

    name: str
    about: str
    """What it is, in words."""
    choices: tuple[str, ...]
    """What can be chosen; empty for a number, which is written."""
    derived: bool
    """Computed by the service, from the participant's records."""
    text: str


def make_fields(study: Study, given: Mapping[str, str]) -> list[FormField]:
    """A field for every state variable, filled with what the address says."""
    fields = []
    for name, variable in study.state.items():
        kind = variable.variable_kind
        text = given.get(PREFIX + name, "").strip()
        if len(text) > LONGEST:
            raise ApiError(422, "invalid", f"what is given for {name} is too long")
        about = f"computed: {variable.derived}" if variable.derived else kind.describe()
        fields.append(FormField(name, about, kind.choices, bool(variable.derived), text))
    return fields


def read_question(
    study: Study, fields: list[FormField], participant_id: str, version: int | None, available: bool
) -> Question:
    """What the fields ask; one left empty is missing."""
    context: dict[str, Cell] = {}
    derived: dict[str, float] = {}
    for field in (candidate for candidate in fields if candidate.text):
        value = study.state[field.name].variable_kind.from_text(field.text)
        if not field.derived:
            context[field.name] = value
        elif isinstance(value, float):
            derived[field.name] = value
        else:
            raise ApiError(422, "wrong_type", f"{field.name} is a number")
    return Question(context, derived, participant_id, version, available)


def list_answer_cells(answer: Answer, actions: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Probabilities of the actions, before and after the limits, then the terms."""
    before = [] if answer.before_limits is None else zip(actions, answer.before_limits, strict=True)
    rows: list[tuple[Any, ...]] = [("before limits", action, None, None, None, value) for action, value in before]
    rows += [
        ("probability", action, None, None, None, value)
        for action, value in zip(actions, answer.choice.probabilities, strict=True)
    ]
    return rows + [("term", term.action, term.feature, term.value, term.weight, term.contribution) for term in answer.terms]


VersionId = Annotated[str, Query(pattern=r"^[1-9]\d{0,8}$|^$")]


@router.get("/policies")
def policies_page(viewer: Reader, download: Download = "") -> Response:
    """The live policy's coefficients, and the history."""
    entries = list_policies(viewer.trial)
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    shown = None if live is None else describe_policy(viewer.trial, live)
    return _policy_page(viewer, shown, entries, download)


@router.get("/policies/drift")
def drift_page(viewer: Reader, before: Before = None, download: Download = "") -> Response:
    """How far the policy moved, and when."""
    trial = viewer.trial
    drift = find_drift(trial, clock.now(), before)
    if download:
        return send_csv(viewer, "policy-drift", DRIFT_COLUMNS, list_drift_cells(drift))
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    return viewer.page(
        "drift",
        drift=drift,
        send_chart=draw_send_drift(drift, limits),
        coefficient_charts=draw_coefficient_drift(drift),
        days=LOOK_BACK.days,
    )


@router.get("/policies/{policy_id}")
def policy_page(policy_id: Id, viewer: Reader, download: Download = "") -> Response:
    """One policy, live or not."""
    shown = describe_policy(viewer.trial, policy_id)
    return _policy_page(viewer, shown, list_policies(viewer.trial), download)


def _policy_page(
    viewer: Viewer, shown: dict[str, Any] | None, entries: list[dict[str, Any]], download: Download
) -> Response:
    estimates = shown["estimates"] if shown else []
    if download:
        columns = ("action", "feature", "value", "low", "high", "note")
        rows = [[getattr(row, name) for name in columns] for row in estimates]
        return send_csv(viewer, f"policy-{shown['id']}" if shown else "policies", columns, rows)
    chart = draw_coefficients(estimates) if estimates else None
    before = find_previous(entries)
    return viewer.page("policies", shown=shown, chart=chart, entries=entries, before=before)


@router.get("/what-if")
def what_if_page(
    viewer: Reader,
    request: Request,
    participant: ParticipantId = "",
    version: VersionId = "",
    available: Literal["yes", "no"] = "yes",
    download: Download = "",
) -> Response:
    """What a policy would do in a state; nothing is drawn, and nothing is kept."""
    trial = viewer.trial
    fields = make_fields(trial.study, request.query_params)
    is_filled_in = any(name.startswith(PREFIX) for name in request.query_params)
    chosen = int(version) if version else None
    question = read_question(trial.study, fields, participant.strip(), chosen, available == "yes")
    answer = answer_question(trial, question, clock.now()) if is_filled_in else None
    names = trial.study.actions.names
    if download and answer is not None:
        return send_csv(viewer, "what-if", ANSWER_COLUMNS, list_answer_cells(answer, names))
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
    entry = next((policy for policy in entries if policy["id"] == policy_id), None)
    if entry is None:
        raise ApiError(404, "unknown_policy", "there is no such policy")
    live = next((policy for policy in entries if policy["live"]), None)
    return viewer.page("activate", entry=entry, live=live)


@router.post("/policies/{policy_id}/activate")
def activate(policy_id: Id, viewer: Actor, fields: Fields) -> Response:
    """Put a policy live, if the live policy is still the one that the admin saw."""
    live = viewer.trial.policies.live()
    if fields.get("live", "") != ("" if live is None else str(live[0])):
        raise ApiError(409, "changed", "another policy went live meanwhile; look at the history and decide again")
    policy_versions.activate_policy(viewer.trial, policy_id, viewer.caller.name)
    return go_to("/policies")
