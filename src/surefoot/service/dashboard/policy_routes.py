"""Pages about policies: the live one and all versions, how they moved, what they would do, and putting one live."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response

from surefoot.service.dashboard import charts, drift_charts, policy_drift, policy_views, what_if_form
from surefoot.service.dashboard.downloads import send_csv
from surefoot.service.dashboard.page_access import Viewer, router
from surefoot.service.dashboard.parameters import Actor, Before, Download, Fields, Id, ParticipantId, Reader, go_to
from surefoot.service.database import clock
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.what_if import answer_question
from surefoot.service.updates import queries

VersionId = Annotated[str, Query(pattern=r"^[1-9]\d{0,8}$|^$")]


@router.get("/policies")
def policies_page(viewer: Reader, download: Download = "") -> Response:
    """The live policy's coefficients, and the history."""
    entries = policy_views.list_policies(viewer.trial)
    live = next((entry["id"] for entry in entries if entry["live"]), None)
    shown = None if live is None else policy_views.describe_policy(viewer.trial, live)
    return _policy_page(viewer, shown, entries, download)


@router.get("/policies/drift")
def drift_page(viewer: Reader, before: Before = None, download: Download = "") -> Response:
    """How far the policy moved, and when."""
    trial = viewer.trial
    drift = policy_drift.find_drift(trial, clock.now(), before)
    if download:
        return send_csv(viewer, "policy-drift", policy_drift.COLUMNS, policy_drift.list_cells(drift))
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    return viewer.page(
        "drift",
        drift=drift,
        send_chart=drift_charts.draw_send_drift(drift, limits),
        coefficient_charts=drift_charts.draw_coefficient_drift(drift),
        days=policy_drift.LOOK_BACK.days,
    )


@router.get("/policies/{policy_id}")
def policy_page(policy_id: Id, viewer: Reader, download: Download = "") -> Response:
    """One policy, live or not."""
    shown = policy_views.describe_policy(viewer.trial, policy_id)
    return _policy_page(viewer, shown, policy_views.list_policies(viewer.trial), download)


def _policy_page(
    viewer: Viewer, shown: dict[str, Any] | None, entries: list[dict[str, Any]], download: Download
) -> Response:
    estimates = shown["estimates"] if shown else []
    if download:
        columns = ("action", "feature", "value", "low", "high", "note")
        rows = [[getattr(row, name) for name in columns] for row in estimates]
        return send_csv(viewer, f"policy-{shown['id']}" if shown else "policies", columns, rows)
    chart = charts.coefficients(estimates) if estimates else None
    before = policy_views.find_previous(entries)
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
    fields = what_if_form.make_fields(trial.study, request.query_params)
    is_filled_in = any(name.startswith(what_if_form.PREFIX) for name in request.query_params)
    chosen = int(version) if version else None
    question = what_if_form.read_question(trial.study, fields, participant.strip(), chosen, available == "yes")
    answer = answer_question(trial, question, clock.now()) if is_filled_in else None
    names = trial.study.actions.names
    if download and answer is not None:
        return send_csv(viewer, "what-if", what_if_form.COLUMNS, what_if_form.list_cells(answer, names))
    return viewer.page(
        "what_if",
        fields=fields,
        answer=answer,
        names=names,
        prefix=what_if_form.PREFIX,
        participant=participant,
        version=version,
        available=available,
        versions=[entry for entry in policy_views.list_policies(trial) if entry["accepted"]],
        limits=trial.study.probability_limits,
    )


@router.get("/policies/{policy_id}/activate")
def ask_to_activate(policy_id: Id, viewer: Reader) -> Response:
    """Say what would change before it does."""
    entries = policy_views.list_policies(viewer.trial)
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
    queries.activate_policy(viewer.trial, policy_id, viewer.caller.name)
    return go_to("/policies")
