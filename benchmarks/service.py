"""Decisions per second and their latency, on SQLite and PostgreSQL, beside a bare FastAPI route that inserts one row.

Both are served by uvicorn with the same workers, database settings and clients, in turns, in one run; the ratios count, not
the seconds. PostgreSQL takes part where its programs are installed, or where SUREFOOT_TEST_POSTGRES names a server.
"""

import http.client
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy.engine import make_url

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.service.support.postgres import binaries, cluster, free_port  # noqa: E402

from surefoot import Study, __version__  # noqa: E402
from surefoot.service.access import keys  # noqa: E402
from surefoot.service.database import databases  # noqa: E402
from surefoot.service.trial import decisions, outcomes, participants  # noqa: E402
from surefoot.service.trial.api_models import DecisionRequest, Outcome  # noqa: E402
from surefoot.service.trial.trial import open_trial  # noqa: E402
from surefoot.service.updates import updates  # noqa: E402

SECONDS, ROUNDS, CLIENTS, PEOPLE = 2.0, 5, 8, 40
STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
range = [-10, 10]
[state.engagement]
[state.fatigue]
[probability_limits]
minimum = 0.1
maximum = 0.9
[trial]
warm_up_decision_points = 10
update_time = "never"
[trial.guard_rails]
max_removed = 1.0
max_send_rate_change = 1.0
max_influence = 1.0
[trial.limits]
requests_per_second = 1000000
"""
WHEN = "2026-03-01T10:00:00Z"


def bare():
    """The least that a service which records something can do: one route, one INSERT, the same engine."""
    database = databases.connect(os.environ["SUREFOOT_DATABASE"])
    table = sa.Table("bare", sa.MetaData(), sa.Column("id", sa.String(32), primary_key=True), sa.Column("body", sa.Text))
    app = FastAPI()

    class Body(BaseModel):
        participant_id: str
        decision_idx: int
        timestamp: str
        availability: bool
        context: dict[str, float]

    @app.post("/api/v1/decisions")
    def insert(body: Body) -> dict[str, str]:
        row = {"id": uuid.uuid4().hex, "body": body.model_dump_json()}
        with database.engine.begin() as connection:
            connection.execute(sa.insert(table), row)
        return {"id": row["id"]}

    return app


@contextmanager
def served(factory, workers, environment):
    port = free_port()
    # Both the same way, as surefoot serve does it.
    call = f"listen({factory!r}, '127.0.0.1', {port}, {workers}, access_log=False)"
    script = f"from surefoot.service.server import listen\nif __name__ == '__main__':\n    {call}\n"
    (Path(environment["SUREFOOT_STUDY"]).parent / "listen.py").write_text(script)
    command = [sys.executable, str(Path(environment["SUREFOOT_STUDY"]).parent / "listen.py")]
    environment = {**environment, "PYTHONPATH": str(ROOT / "benchmarks")}
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        cwd=ROOT / "benchmarks",
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(2 if workers > 1 else 0.5)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def body(participant, index):
    context = {"weather": index % 7 / 7, "engagement": index % 11 / 11, "fatigue": index % 13 / 13}
    return {
        "participant_id": participant,
        "decision_idx": index,
        "timestamp": WHEN,
        "availability": True,
        "context": context,
    }


def load(port, key, first, seconds):
    """Latencies of all requests that several clients got answered in some seconds, one after the other each."""
    found = [[] for _ in range(CLIENTS)]
    end = time.perf_counter() + seconds

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        index = first
        while time.perf_counter() < end:
            text = json.dumps(body(f"p{number}", index))
            start = time.perf_counter()
            connection.request("POST", "/api/v1/decisions", text, headers)
            reply = connection.getresponse()
            content = reply.read()
            found[number].append(time.perf_counter() - start)
            if reply.status != 200:
                raise SystemExit(f"{reply.status}: {content[:200]}")
            index += 1

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return np.concatenate([np.array(times) for times in found])


def prepared(url):
    """A trial with a live policy for everybody, and the bare route's table."""
    trial = open_trial(Study.parse(STUDY), url)
    rng = np.random.default_rng(0)
    for participant in (f"p{number}" for number in range(PEOPLE)):
        participants.register_participant(trial.database, participant)
        told = []
        for index in range(20):
            request = DecisionRequest.model_validate(body(participant, index))
            decision = json.loads(decisions.decide(trial, request))["decision_id"]
            told.append(Outcome(decision_id=decision, proximal_outcome=float(rng.normal()), timestamp=WHEN))
        outcomes.record_outcomes(trial, told)
    if updates.run_update(trial, updates.begin_update(trial, "benchmark")) != "done":
        raise SystemExit("the benchmark's policy did not go live")
    with trial.database.transaction() as connection:
        connection.exec_driver_sql("CREATE TABLE bare (id VARCHAR(32) PRIMARY KEY, body TEXT)")
    key = keys.create_key(trial.database, "app")
    trial.close()
    return key


def compare(url, workers, study_file):
    key = prepared(url)
    environment = {"SUREFOOT_DATABASE": url, "SUREFOOT_STUDY": str(study_file), "OPENBLAS_NUM_THREADS": "1"}
    times = {"bare": [], "surefoot": []}
    rates = {"bare": [], "surefoot": []}
    with (
        served("service:bare", workers, environment) as bare_port,
        served("surefoot.service.app:from_environment", workers, environment) as port,
    ):
        for number in range(-1, ROUNDS):
            for name, where in (("bare", bare_port), ("surefoot", port)):
                # The first round warms up and does not count.
                seconds = SECONDS if number >= 0 else 1.0
                found = load(where, key, 1_000_000 * (number + 2), seconds)
                if number >= 0:
                    times[name].append(found)
                    rates[name].append(len(found) / seconds)
    return {
        name: {
            "per_second": round(float(np.median(rates[name])), 1),
            **{
                f"p{percent}_ms": round(1e3 * float(np.percentile(np.concatenate(times[name]), percent)), 2)
                for percent in (50, 95, 99)
            },
        }
        for name in times
    } | {"ratio": round(float(np.median(np.array(rates["surefoot"]) / np.array(rates["bare"]))), 3)}


@contextmanager
def postgres_database(server):
    parsed = make_url(server).set(drivername="postgresql+psycopg")
    name = f"bench_{uuid.uuid4().hex[:10]}"
    engine = sa.create_engine(parsed.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield parsed.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


def main():
    results = {"clients": CLIENTS, "seconds": SECONDS, "rounds": ROUNDS, "cores": os.cpu_count(), "databases": {}}
    given = os.environ.get("SUREFOOT_TEST_POSTGRES")
    with tempfile.TemporaryDirectory() as folder:
        study_file = Path(folder) / "study.toml"
        study_file.write_text(STUDY)
        for workers in (1, 2):
            url = f"sqlite:///{folder}/trial-{workers}.db"
            results["databases"][f"SQLite, {workers} worker(s)"] = compare(url, workers, study_file)
        server = nullcontext(given) if given else cluster(binaries()) if binaries() else None
        if server is None:
            print("PostgreSQL is not installed and SUREFOOT_TEST_POSTGRES is not set: not measured")
        else:
            with server as found:
                for workers in (1, 2):
                    with postgres_database(found) as url:
                        results["databases"][f"PostgreSQL, {workers} worker(s)"] = compare(url, workers, study_file)
    results["versions"] = {"surefoot": __version__, "sqlalchemy": sa.__version__, "python": platform.python_version()}
    print(f"{'':<26}{'per second':>12}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}   share of bare")
    for database, rows in results["databases"].items():
        for name in ("bare", "surefoot"):
            one = rows[name]
            share = f"{rows['ratio']:>16.2f}" if name == "surefoot" else ""
            print(
                f"{database + ', ' + name:<38}{one['per_second']:>8.0f}{one['p50_ms']:>9.1f}{one['p95_ms']:>9.1f}"
                f"{one['p99_ms']:>9.1f}{share}"
            )
    path = ROOT / "benchmarks" / "service.json"
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
