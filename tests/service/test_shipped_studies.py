"""Every study that the package ships or writes can be served: decisions, outcomes, an update, the pages, the export."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from pyarrow import csv

from surefoot.datasets.demo_trial import simulate_logs, study_text
from surefoot.errors import InputError
from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.operations import encrypted_files
from surefoot.service.operations.backup import PASSPHRASE
from surefoot.service.operations.qualification import qualify
from surefoot.service.trial.trial import check_servable, open_trial
from surefoot.service.trial.verification import replay, verify
from surefoot.study import Study
from surefoot.study.draft import draft_study
from tests.service.dashboard.pages import PAGES, sign_in
from tests.service.support.client import Client
from tests.service.support.servers import serving
from tests.service.support.trials import update

STATES = ("temperature", "motivated", "tired", "stressed")
DOCUMENTED = re.search(r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "service.md").read_text(), re.DOTALL)[1]
"""`[probability_limits]` and `[trial]` as docs/service.md has them."""
LIMITS, TRIAL = DOCUMENTED[: DOCUMENTED.index("[trial]")], DOCUMENTED[DOCUMENTED.index("[trial]") :]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/trial.db"


def test_the_demos_study_runs_a_trial(url, tmp_path):
    """Asked and answered as the demo's own logs have it, days beginning at 04:00."""
    # The demo allows fewer requests a second than this test makes on a fast machine.
    trial = open_trial(Study.parse(study_text() + "\n[trial.limits]\nrequests_per_second = 10000\n"), url)
    given = {role: access.create_key(trial.database, role) for role in access.ROLES}
    rows = [row for row in simulate_logs().to_pylist() if row["participant"] in ("p01", "p02", "p03", "p04")]
    with Client(create_app(trial), given) as client:
        client.register("p01", "p02", "p03", "p04")
        for index, row in enumerate(rows):
            decide(client, row, index)
        assert update(trial)[0] == "done"
        last = decide(client, {**rows[-1], "time": "2026-03-30T12:00"}, len(rows))
        assert last["source"] == "policy"
        sign_in(client, "admin")
        for page in (*PAGES, "/participants/p04", "/updates/1", "/policies/1"):
            assert client.get(page).status_code == 200, page
        assert "a day begins at 04:00" in client.get("/adherence").text
    assert replay(trial.database).differences == [] == verify(trial.database).discrepancies
    trial.close()


def decide(client, row, index):
    asked = {
        "timestamp": f"{row['time']}:00Z",
        "availability": row["available"],
        "reasons": [] if row["available"] else ["driving"],
        "context": {name: row[name] for name in STATES},
    }
    reply = client.decide(row["participant"], index, **asked)
    assert reply.status_code == 200, reply.text
    client.outcome(reply.json()["decision_id"], row["steps"], f"{row['time']}:30Z")
    return reply.json()


def test_the_demos_study_is_served(url, tmp_path):
    """By the command itself."""
    path = tmp_path / "study.toml"
    path.write_text(study_text())
    with serving(path, url, workers=1) as server:
        assert server.ask("GET", "/healthz")[0] == 200


def draft_demo(folder):
    csv.write_csv(simulate_logs(), folder / "logs.csv")
    return draft_study(folder / "logs.csv").text + TRIAL


def draft_without_probabilities(folder):
    """Logs that hold neither availability nor probability, with whole numbers for times."""
    rows = "".join(f"p{k % 5},{k // 5},{k % 3},{k % 2},{k % 7}\n" for k in range(100))
    (folder / "logs.csv").write_text(f"id,decision,mood,sent,steps\n{rows}")
    text = draft_study(folder / "logs.csv").text
    for role in ("available", "probability"):
        text = text.replace(f'# {role} = "…"', f'{role} = "{role}"')
    return text + TRIAL


def add_trial_to_heartsteps(folder):
    """As the messages say, one after the other."""
    text = (files("surefoot.datasets") / "heartsteps_v1.toml").read_text() + LIMITS + TRIAL
    with pytest.raises(InputError, match=r"write probability = 'probability' and remove actions\.probabilities"):
        Study.parse(text)
    text = re.sub(r"^available = .*$", '\\g<0>\nprobability = "probability"', text, count=1, flags=re.MULTILINE)
    return re.sub(r"^probabilities = .*$", "", text, count=1, flags=re.MULTILINE)


@pytest.mark.parametrize("write", [draft_demo, draft_without_probabilities, add_trial_to_heartsteps])
def test_a_study_with_the_documented_trial_section_qualifies(write, url, tmp_path, monkeypatch):
    # SQLite waits for the disk, as it does outside of tests; the documented backups are encrypted.
    settings = tuple(setting for setting in databases.PRAGMAS if setting != "synchronous = OFF")
    monkeypatch.setattr(databases, "PRAGMAS", settings)
    monkeypatch.setenv(PASSPHRASE, "four plain words here")
    monkeypatch.setattr(encrypted_files, "WORK", 8)
    text = write(tmp_path).replace("warm_up_decision_points = 42", "warm_up_decision_points = 10")
    path = tmp_path / "study.toml"
    path.write_text(text)
    path.chmod(0o640)
    study = Study.load(path)
    check_servable(study)
    open_trial(study, url).close()
    result = qualify(path, url)
    assert [check for check in (*result.installation, *result.operation) if not check.passed] == []
