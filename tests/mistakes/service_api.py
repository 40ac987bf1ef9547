"""Mistakes of a client of the service."""

import atexit
import shutil
import tempfile
from functools import cache

from surefoot import InputError, Study
from tests.mistakes.catalogue import Mistake
from tests.service.support.client import CONTEXT, Client, request
from tests.service.support.trials import STUDY

OUTCOME = {"decision_id": "f" * 32, "outcome": 1, "timestamp": "2026-03-01T12:00:00Z"}


@cache
def client():
    """One service for all mistakes, which change nothing; p1 and p3 are registered, and p1 has one decision."""
    from surefoot.service import access
    from surefoot.service.app import create_app
    from surefoot.service.trial.trial import open_trial

    folder = tempfile.mkdtemp()
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{folder}/trial.db")
    atexit.register(shutil.rmtree, folder)
    atexit.register(trial.close)
    found = Client(create_app(trial), {role: access.create_key(trial.database, role) for role in access.ROLES})
    found.register("p1", "p3")
    found.decide("p1", 0)
    return found


def ask(body, path="/decisions", role="app"):
    def make():
        reply = client().ask(path, body, role)
        if reply.is_error:
            raise InputError(reply.json()["error"]["message"])

    return make


def ask_as(kind):
    def make():
        headers = {**client().as_role("app"), "Content-Type": kind}
        raise InputError(client().post("/api/v1/decisions", content="{}", headers=headers).json()["error"]["message"])

    return make


def read_warnings(body):
    """Of an answer that is no error."""

    def make():
        raise InputError(client().ask("/decisions", body).json()["warnings"][0])

    return make


def read_refusal(body):
    """Of the one outcome of a batch that is wrong in form."""

    def make():
        receipts = client().ask("/outcomes", body).json()["results"]
        (refused,) = [receipt for receipt in receipts if receipt["status"] == "refused"]
        raise InputError(refused["message"])

    return make


def without(name):
    return {field: value for field, value in request().items() if field != name}


MISTAKES = [
    Mistake(
        "an e-mail address as id",
        ask(request(participant="a@b.c")),
        "participant_id may hold letters, digits, . _ - (1 to 64 of them, not dots alone)",
    ),
    Mistake(
        "a misspelt field",
        ask({**request(), "contxt": {}}),
        "there is no field 'contxt' (did you mean 'context'?); there are participant_id, decision_idx, timestamp, availability, reasons, context",
    ),
    Mistake(
        "a misspelt context variable, in the answer's `warnings`",
        read_warnings(request(participant="p3", context={"wether": 0.5, "engagement": -1.0, "place": "home"})),
        "context.wether is not a state variable of the study (did you mean 'weather'?); it was not used",
    ),
    Mistake(
        "a form instead of JSON",
        ask_as("application/x-www-form-urlencoded"),
        "the body is JSON; send Content-Type: application/json",
    ),
    Mistake("a missing field", ask(without("availability")), "availability is missing"),
    Mistake("availability as text", ask(request(availability="yes")), "availability is true or false, without quotes"),
    Mistake("a decision point's index as text", ask(request(index="0")), "decision_idx is a whole number, without quotes"),
    Mistake("a negative index", ask(request(index=-1)), "decision_idx counts a participant's decision points from 0"),
    Mistake(
        "a time without a zone",
        ask(request(timestamp="2026-03-01T10:00:00")),
        "write the time in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00",
    ),
    Mistake("a body that is a list", ask([]), "the body is a JSON object"),
    Mistake(
        "an object as a context variable's value",
        ask(request(context={**CONTEXT, "weather": {"a": 1}})),
        "context.weather is a number (a whole one up to 2⁵³), true or false, text of at most 200 characters, or null",
    ),
    Mistake(
        "a number as text",
        ask(request(index=1, context={**CONTEXT, "weather": "0.5"})),
        "context.weather is a number, or null",
    ),
    Mistake(
        "a decision for somebody who is not registered",
        ask(request(participant="p2")),
        "register the participant first: POST /participants",
    ),
    Mistake(
        "another decision under the same index",
        ask(request(index=0, timestamp="2026-03-02T10:00:00+01:00")),
        "it was decided for another timestamp, availability or context; a retry repeats the request as it was",
    ),
    Mistake(
        "not available, and no reason",
        ask(request(index=1, availability=False)),
        "say in reasons why the participant is not available, for example ['driving']",
    ),
    Mistake(
        "an outcome as text",
        ask({**OUTCOME, "outcome": "5"}, "/outcomes"),
        "outcome is a finite number, or null where it is known to be missing",
    ),
    Mistake("an outcome of a decision that was never made", ask(OUTCOME, "/outcomes"), "there is no such decision"),
    Mistake(
        "a decision's id that is none",
        ask({**OUTCOME, "decision_id": "7"}, "/outcomes"),
        "decision_id is 32 hexadecimal digits, as POST /decisions answered it",
    ),
    Mistake("no outcomes", ask({"outcomes": []}, "/outcomes"), "outcomes is empty; send at least one"),
    Mistake(
        "too many outcomes at once",
        ask({"outcomes": [OUTCOME] * 1001}, "/outcomes"),
        "send at most 1,000 outcomes at once; split the batch",
    ),
    Mistake(
        "a misspelt field in a batch, in that outcome's receipt",
        read_refusal({"outcomes": [OUTCOME, {**OUTCOME, "outcom": 1}]}),
        "there is no field 'outcom' (did you mean 'outcome'?); there are decision_id, outcome, timestamp, action_prob",
    ),
    Mistake(
        "an index that leaves none for later decision points",
        ask(request(index=2**31 - 1)),
        "decision_idx may be 10000 at most, which is 10000 after the last",
    ),
    Mistake(
        "two decision points at one moment",
        ask(request(index=1, timestamp=request()["timestamp"])),
        "the timestamp is the same as an earlier decision point's",
    ),
    Mistake("an app's key where the staff's is needed", ask({}, "/updates"), "this needs a key with the role admin"),
]
