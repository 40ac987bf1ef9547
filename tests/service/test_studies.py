"""Several studies on one server: nothing of one is seen, answered or decided by another."""

import re

import pytest
from starlette.testclient import TestClient

from surefoot.errors import InputError
from surefoot.service import access
from surefoot.service.database.databases import DatabaseMovedError
from surefoot.service.database.schema import decisions
from surefoot.service.studies import StudyServer, open_trials
from tests.service.dashboard.pages import token
from tests.service.support.client import request
from tests.service.support.servers import Server
from tests.service.support.trials import STUDY, column, fill

LIST = '[studies.{}]\nstudy = "{}"\ndatabase = "sqlite:///{}/{}.db"\n'


@pytest.fixture
def listed(tmp_path):
    """The file of two studies, which differ by their titles."""
    for name in ("walk", "sleep"):
        (tmp_path / f"{name}.toml").write_text(STUDY.replace("[trial]", f'[trial]\ntitle = "Study of {name}"', 1))
    names = ("walk", "sleep")
    (tmp_path / "studies.toml").write_text("".join(LIST.format(name, f"{name}.toml", tmp_path, name) for name in names))
    return tmp_path / "studies.toml"


@pytest.fixture
def server(listed):
    trials = open_trials(listed)
    keys = {name: access.create_key(trial.database, "admin") for name, trial in trials.items()}
    with TestClient(StudyServer(trials), follow_redirects=False) as client:
        client.trials, client.keys = trials, keys
        yield client


def send(server, study, key, index=0):
    headers = {"Authorization": f"Bearer {server.keys[key]}"}
    server.post(f"/studies/{study}/api/v1/participants", json={"participant_id": "p1"}, headers=headers)
    return server.post(f"/studies/{study}/api/v1/decisions", json=request("p1", index), headers=headers)


def test_a_key_of_one_study_is_nothing_to_another(server):
    assert send(server, "walk", "walk").status_code == 200
    assert send(server, "sleep", "walk").status_code == 401
    assert len(column(server.trials["walk"], decisions.c.id)) == 1
    assert column(server.trials["sleep"], decisions.c.id) == []
    assert 'surefoot_requests_total{route="/api/v1/decisions",status="200",study="walk"} 1.0' in (
        server.get("/studies/walk/metrics").text
    )
    assert 'study="walk"' not in server.get("/studies/sleep/metrics").text
    assert server.get("/studies/sleep/readyz").json() == {"status": "ready"}


def test_pages_link_within_their_study_and_sessions_stay_there(server):
    fill(server.trials["walk"], people=1, points=5)
    begin = server.get("/studies/walk/")
    assert begin.headers["location"] == "/studies/walk/sign-in"
    page = server.get("/studies/walk/sign-in")
    signed_in = server.post("/studies/walk/sign-in", data={"token": token(page), "key": server.keys["walk"]})
    assert signed_in.headers["location"] == "/studies/walk/"
    assert "Path=/studies/walk;" in signed_in.headers["set-cookie"].replace("path", "Path")
    for path in (
        "/",
        "/participants",
        "/participants/p0",
        "/safety",
        "/events",
        "/alerts",
        "/staff",
        "/policies",
        "/nowhere",
    ):
        text = server.get(f"/studies/walk{path}", headers={"Accept": "text/html"}).text.partition("</style>")[2]
        links = re.findall(r'(?:href|action)="(/[^"]*)"', text)
        assert links and all(link.startswith("/studies/walk/") for link in links), path
    assert server.get("/studies/sleep/").headers["location"] == "/studies/sleep/sign-in", "another study, another session"
    stolen = {"surefoot_session": server.cookies.get("surefoot_session")}
    server.cookies.clear()
    server.cookies.update(stolen)
    assert server.get("/studies/walk/").status_code == 200
    assert server.get("/studies/sleep/").headers["location"] == "/studies/sleep/sign-in", "signed by another secret"


def test_other_addresses_lead_nowhere(server):
    for path in ("/", "/studies/walk", "/studies/none/", "/healthz"):
        assert server.get(path).headers["x-frame-options"] == "DENY"
    assert "Study of walk" in server.get("/").text and server.get("/healthz").json() == {"status": "alive"}
    assert server.get("/studies/walk").headers["location"] == "/studies/walk/"
    for path in ("/participants", "/studies/other/", "/studies/", "/studies/../walk/", "/api/v1/decisions"):
        assert server.get(path).status_code == 404, path


def test_one_address_says_whether_all_studies_can_decide(server, monkeypatch):
    assert server.get("/readyz").json() == {"status": "ready"}
    recorder = server.app.apps["sleep"].state.recorder

    async def fail():
        raise DatabaseMovedError

    monkeypatch.setattr(recorder, "check_readiness", fail)
    answer = server.get("/readyz")
    assert answer.status_code == 503 and "cannot decide: sleep;" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "studies"),
        ('[studies.Walk]\nstudy = "walk.toml"\ndatabase = "sqlite:///x.db"\n', "Walk"),
        ('[studies.walk]\nstudy = "walk.toml"\n', "database"),
        (LIST.format("a", "walk.toml", "/x", "same") + LIST.format("b", "walk.toml", "/x/../x", "same"), "needs its own"),
        (
            '[studies.a]\nstudy = "walk.toml"\ndatabase = "postgresql://x@localhost/same"\n'
            '[studies.b]\nstudy = "walk.toml"\ndatabase = "postgresql://y:z@localhost:5432/same?sslmode=require"\n',
            "needs its own",
        ),
    ],
)
def test_a_list_with_a_mistake_is_refused(listed, text, words):
    listed.write_text(text)
    with pytest.raises(InputError, match=words):
        open_trials(listed)


def test_the_command_serves_a_list(listed, tmp_path):
    server = Server(listed, "sqlite:///unused.db", 1)
    command = server._command
    command[command.index("--study")] = "--studies"
    server.ready = "/studies/sleep/readyz"
    server.start()
    try:
        assert server.ask("GET", "/studies/walk/readyz")[0] == server.ask("GET", "/readyz")[0] == 200
    finally:
        server.kill()
    assert "/studies/walk/ uses sqlite:///" in server.log
