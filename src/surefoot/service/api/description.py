"""The description of the API for the programmers of an app: OpenAPI with the study's own variables, and a page to read.

Both are made once and sent as they are: anybody may ask for them, as often as they like, and nobody else waits.
"""

import json
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from fastapi import FastAPI

from surefoot.data.column_kinds import VariableKind
from surefoot.reports.render import render
from surefoot.service.trial.trial import Trial, is_sandbox
from surefoot.study import Study

MOMENT = "2026-03-01T09:30:00+01:00"
DECISION_ID = "5f0c22aa71b04c8e9d3d6f8a1b2c3d4e"
PATH_VALUES = {"participant_id": "p-017", "update_id": 1, "policy_id": 1, "change": "pause"}
"""Of the examples."""
STATUSES = {
    "400": "The body is not plain JSON.",
    "401": "No key, or one that is not valid.",
    "403": "The key has another role.",
    "404": "There is no such participant, decision, update or policy.",
    "409": "It conflicts with the record; sending it again does not help.",
    "413": "The request is too large.",
    "415": "The body is not JSON.",
    "422": "A field is wrong; `field` names it.",
    "429": "Too many requests; wait as long as `Retry-After` says.",
    "500": "An error in the service; its log says where.",
    "503": "The service or its database cannot answer now; send it again after `Retry-After`.",
}


class Description:
    """What an app's programmers read about the service of one trial."""

    def __init__(self, app: FastAPI, trial: Trial) -> None:
        self._app = app
        self._study = trial.study

    @cached_property
    def content(self) -> dict[str, Any]:
        """The OpenAPI description."""
        described = self._app.openapi()
        described["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schemas = described["components"]["schemas"]
        schemas["DecisionRequest"]["properties"]["context"] |= describe_context(self._study)
        outcome = schemas["Outcome"]["properties"]["outcome"]
        outcome["description"] = describe_outcome(self._study)
        examples = make_examples(self._study)
        for path, ways in described["paths"].items():
            for method, route in ways.items():
                _describe_statuses(route["responses"])
                _add_examples(route, examples.get(path, {}))
                command = write_curl(method.upper(), path, route, examples.get(path, {}).get("request"))
                route["x-codeSamples"] = [{"lang": "Shell", "source": command}]
        return described

    @cached_property
    def file(self) -> bytes:
        """`/openapi.json`."""
        return json.dumps(self.content, ensure_ascii=False).encode()

    @cached_property
    def page(self) -> bytes:
        """`/docs`, without a file from another host."""
        title = self.content["info"]["title"]
        content = {"api": self.content, "statuses": STATUSES, "title": title, "sandbox": is_sandbox()}
        return render("api.html", package="surefoot.service.api", **content).encode()


def describe_context(study: Study) -> dict[str, Any]:
    """The schema of a context: one property for each variable that the app measures."""
    properties = {
        name: describe_variable(kind, study.state[name].unit, name) for name, (_, kind) in study.state_kinds.items()
    }
    derived = ", ".join(study.derived_states)
    words = "The study's state variables; null, or left out, where one is missing."
    if derived:
        words += f" The service itself keeps {derived}: do not send them."
    return {"properties": properties, "description": words}


def describe_variable(kind: VariableKind, unit: str, name: str) -> dict[str, Any]:
    """The schema of one variable.

    >>> from surefoot.data.column_kinds import KINDS
    >>> describe_variable(KINDS.find("number")(range=(0, 24)), "hours", "sleep")["description"]
    'a number from 0 to 24, in hours; a value outside counts as missing'
    """
    types = {str: "string", bool: "boolean", int: "number", float: "number"}
    words = kind.json_type
    described: dict[str, Any] = {
        "title": name,
        "type": [*dict.fromkeys(types[kind] for kind in kind.json_types if kind in types), "null"],
    }
    if kind.levels:
        words = f"one of {', '.join(kind.levels)}"
        described["enum"] = [*kind.levels, None]
    if kind.range is not None:
        words += " from {:g} to {:g}".format(*kind.range)
    if unit:
        words += f", in {unit}"
        described["x-unit"] = unit
    if kind.range is not None:
        words += "; a value outside counts as missing"
        described["x-range"] = list(kind.range)
    return {**described, "description": words, "examples": [make_value(kind)]}


def describe_outcome(study: Study) -> str:
    """The proximal outcome in words."""
    outcome = study.outcome
    words = f"The study's '{outcome.column}'"
    if outcome.unit:
        words += f", in {outcome.unit}"
    if outcome.range is not None:
        words += ", from {:g} to {:g}".format(*outcome.range)
    return f"{words}; null where it is known to be missing."


def make_value(kind: VariableKind) -> Any:
    """A plausible value of a variable."""
    if kind.levels:
        return kind.levels[0]
    if bool in kind.json_types:
        return True
    low, high = kind.range or (0.0, 1.0)
    return round((low + high) / 2, 6)


def make_examples(study: Study) -> Mapping[str, dict[str, Any]]:
    """By path: a request, where the route has a body, and the reply, where it is JSON."""
    context = {name: make_value(kind) for name, (_, kind) in study.state_kinds.items()}
    names = study.actions.names
    chance = round(1 / len(names), 6)
    low, high = study.outcome.range or (0.0, 1.0)
    receipt = {"decision_id": DECISION_ID, "status": "recorded", "action_prob_agrees": True}
    receipt |= {"message": None, "field": None}
    decision = {"participant_id": "p-017", "decision_idx": 0, "timestamp": MOMENT, "availability": True, "context": context}
    outcome = {"decision_id": DECISION_ID, "outcome": (low + high) / 2, "timestamp": MOMENT, "action_prob": chance}
    reason = {"reason": "rash under the strap"}
    check = {"check": "finite", "passed": True, "message": "every number of the policy is finite"}
    update = {"id": 1, "state": "done", "started_by": "key 6020d9e9bf72", "created_at": MOMENT, "finished_at": MOMENT}
    update |= {"policy_id": 1, "findings": [check], "result": {"used": 228, "removed": 9}, "message": None}
    coefficient = {"participant_id": "everyone", "action": names[1], "feature": next(iter(context)), "value": 0.12}
    policy = {"id": 1, "created_at": MOMENT, "update_id": 1, "accepted": True, "live": True}
    policy |= {"activations": [{"activated_at": MOMENT, "activated_by": "update 1"}], "method": study.method_name}
    policy |= {"states": list(study.state_names), "actions": list(names), "people": None, "coefficients": [coefficient]}
    counts = {"at": MOMENT, "participants": 11, "withdrawn": 1, "paused": 0, "erased": 0, "study_paused": False}
    counts |= {"decisions": 481, "available": 450, "decisions_last_day": 55, "fallbacks_last_day": 2}
    counts |= {"most_prompts_in_a_day": 4, "open_alerts": 0, "refused_updates": 0, "reasons": ["moved away"]}
    return {
        "/api/v1/participants/{participant_id}/next": {
            "reply": {
                "participant_id": "p-017",
                "last_decision_idx": 0,
                "last_timestamp": MOMENT,
                "next_decision_idx": 1,
                "not_before": MOMENT,
                "paused": False,
                "withdrawn": False,
            }
        },
        "/api/v1/updates": {"reply": {**update, "state": "queued", "finished_at": None, "policy_id": None, "findings": []}},
        "/api/v1/updates/{update_id}": {"reply": update},
        "/api/v1/policies": {"reply": {"policies": [policy]}},
        "/api/v1/policies/{policy_id}/activate": {"reply": {"policy_id": 1, "previous_policy_id": 2}},
        "/api/v1/participants/{participant_id}/withdraw": {
            "request": {"reason": "moved away"},
            "reply": {"participant_id": "p-017", "withdrawn": True},
        },
        "/api/v1/participants/{participant_id}/{change}": {
            "request": reason,
            "reply": {"participant_id": "p-017", "paused": True},
        },
        "/api/v1/study/{change}": {"request": reason, "reply": {"participant_id": None, "paused": True}},
        "/api/v1/safety": {"reply": counts},
        "/api/v1/healthz": {"reply": {"status": "alive"}},
        "/api/v1/readyz": {"reply": {"status": "ready"}},
        "/api/v1/participants": {
            "request": {"participant_id": "p-017"},
            "reply": {"participant_id": "p-017", "registered_at": MOMENT},
        },
        "/api/v1/decisions": {
            "request": decision,
            "reply": {
                "decision_id": DECISION_ID,
                "action": 1,
                "action_prob": [chance] * len(names),
                "source": "warm-up",
                "reasons": [],
                "policy_id": None,
                "action_name": names[1],
                "warnings": [],
            },
        },
        "/api/v1/outcomes": {"request": outcome, "reply": {"results": [receipt]}},
    }


def _describe_statuses(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if status in STATUSES:
            response["description"] = STATUSES[status]
        if status in ("429", "503"):
            seconds = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
            milliseconds = {"schema": {"type": "integer"}, "description": "The same in milliseconds, where it is known."}
            response["headers"] = {"Retry-After": seconds, "Retry-After-Ms": milliseconds}


def write_curl(method: str, path: str, route: Mapping[str, Any], request: dict[str, Any] | None) -> str:
    """The command that sends the example.

    >>> print(write_curl("POST", "/api/v1/study/{change}", {"security": []}, {"reason": "rash"}))
    curl -X POST "$SUREFOOT_URL/api/v1/study/pause" -H "Authorization: Bearer $SUREFOOT_KEY" \\
      -H "Content-Type: application/json" -d '{"reason": "rash"}'
    """
    words = [f'curl{"" if method == "GET" else f" -X {method}"} "$SUREFOOT_URL{path.format(**PATH_VALUES)}"']
    if "security" in route:
        words.append('-H "Authorization: Bearer $SUREFOOT_KEY"')
    if request is not None:
        words.append(f'\\\n  -H "Content-Type: application/json" -d {shlex.quote(json.dumps(request, ensure_ascii=False))}')
    return " ".join(words)


def _add_examples(route: dict[str, Any], examples: dict[str, Any]) -> None:
    if "request" in examples:
        route["requestBody"]["content"]["application/json"]["example"] = examples["request"]
    if "reply" in examples:
        (status,) = (code for code in route["responses"] if code.startswith("2"))
        route["responses"][status]["content"]["application/json"]["example"] = examples["reply"]
