"""The description of the API names the study's own variables, is made once, and can be left unpublished."""

import html
import json

import pytest

from surefoot.service.api import description
from surefoot.service.app import create_app
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial import api_models
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.client import Client
from tests.service.support.trials import STUDY

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def change(trial, old, new):
    """The application of the same trial with another study."""
    assert old in STUDY
    return create_app(open_trial(Study.parse(STUDY.replace(old, new)), trial.database.url))


def test_the_context_has_the_variables_of_the_study_with_type_range_and_unit(trial):
    app = change(trial, "range = [-10, 10]", 'range = [-10, 10]\nunit = "°C"')
    context = app.state.description.content["components"]["schemas"]["DecisionRequest"]["properties"]["context"]
    app.state.trial.close()
    assert set(context["properties"]) == {"weather", "engagement", "place"}
    weather = context["properties"]["weather"]
    assert weather["type"] == ["number", "null"] and weather["x-range"] == [-10, 10] and weather["x-unit"] == "°C"
    assert weather["description"] == "a number from -10 to 10, in °C; a value outside counts as missing"
    assert context["properties"]["place"]["enum"] == ["other", "home", None]


def test_every_route_names_its_statuses_and_the_examples_work(client):
    described = client.get("/openapi.json").json()
    for path, ways in described["paths"].items():
        for route in ways.values():
            assert all(response["description"] for response in route["responses"].values()), path
    decisions = described["paths"]["/api/v1/decisions"]["post"]
    assert {"200", "401", "404", "409", "422", "429", "503"} <= set(decisions["responses"])
    assert set(decisions["responses"]["429"]["headers"]) == {"Retry-After", "Retry-After-Ms"}
    decided = {}
    for path in ("/api/v1/participants", "/api/v1/decisions", "/api/v1/outcomes"):
        route = described["paths"][path]["post"]
        asked = route["requestBody"]["content"]["application/json"]["example"]
        if path == "/api/v1/outcomes":
            asked = {**asked, "decision_id": decided["decision_id"]}
        reply = client.ask(path.removeprefix("/api/v1"), asked)
        assert reply.status_code == 200, reply.text
        decided = reply.json()
        example = route["responses"]["200"]["content"]["application/json"]["example"]
        assert set(example) == set(decided)


def find_model(content):
    """The model of a body, of an outcome the single one."""
    schema = content["schema"]
    name = schema.get("$ref", schema.get("oneOf", [{}])[0].get("$ref", "")).rpartition("/")[2]
    return DecisionReply if name == "DecisionReply" else getattr(api_models, name)


def test_every_route_has_an_example_of_its_bodies_that_its_model_accepts(client):
    bodies = 0
    for path, ways in client.get("/openapi.json").json()["paths"].items():
        for route in ways.values():
            (command,) = route["x-codeSamples"]
            assert command["source"].startswith("curl ") and "{" not in command["source"].split(" -d ")[0], path
            answers = [answer for code, answer in route["responses"].items() if code[0] == "2"]
            for body in [*([route["requestBody"]] if "requestBody" in route else []), *answers]:
                content = body.get("content", {}).get("application/json")
                if content is None or (content["schema"] == {} and "/export/" in path):
                    assert "/export/" in path or path.endswith("/metrics"), path
                    continue
                bodies += 1
                if "healthz" in path or "readyz" in path:
                    assert content["example"]["status"]
                    continue
                example = find_model(content).model_validate(content["example"])
                assert set(content["example"]) <= set(type(example).model_fields), path
    assert bodies >= 14


def test_the_page_is_made_once_and_shows_variables_and_examples(client, monkeypatch):
    page = client.get("/docs").text
    assert "context.weather" in page and "a number from -10 to 10" in page and '"decision_idx": 0' in html.unescape(page)
    monkeypatch.setattr(description, "render", None)
    assert client.get("/docs").text == page and client.get("/openapi.json").status_code == 200


def test_a_study_may_keep_the_description_to_itself(trial):
    app = change(trial, "[trial.limits]", "[trial.limits]\npublic_documentation = false")
    with Client(app, {}) as client:
        assert [client.get(path).status_code for path in ("/docs", "/openapi.json")] == [404, 404]
        assert json.loads(client.get("/docs").text)["error"]["code"] == "not_found"


def test_a_sandbox_says_so_on_every_page_and_reply(trial, monkeypatch):
    monkeypatch.setenv("SUREFOOT_SANDBOX", "1")
    with Client(create_app(trial), {}) as client:
        for path in ("/sign-in", "/docs", "/healthz", "/openapi.json", "/nothing"):
            reply = client.get(path, headers={"accept": "text/html"})
            assert reply.headers["x-surefoot-sandbox"] == "true", path
            assert "forgotten when it stops" in reply.text or path in ("/healthz", "/openapi.json")
        assert client.get("/openapi.json").json()["info"]["title"].endswith("(sandbox)")
