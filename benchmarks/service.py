"""Decisions per second, their latency and processor time, compared with two bare FastAPI routes that insert one row.

One route inserts its row by SQLAlchemy, as most services do; the other by the plain driver (sqlite3 with a lock, psycopg
with one connection for each thread), which is the harder measure. All are served by uvicorn with the same workers, database
settings and clients, in turns, in one run; the ratios count, not the seconds. On a busy machine the processor time of the
server is what can be compared. PostgreSQL takes part where its programs are installed, or where SUREFOOT_TEST_POSTGRES names
a server.
"""

import argparse
import json
import os
import platform
import re
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg
import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy.engine import make_url

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.service.support.guards import Guard  # noqa: E402
from tests.service.support.postgres import binaries, cluster, free_port  # noqa: E402

from surefoot import Study, __version__  # noqa: E402
from surefoot.service import access  # noqa: E402
from surefoot.service.database import databases  # noqa: E402
from surefoot.service.trial import decisions, participants  # noqa: E402
from surefoot.service.trial.api_models import DecisionRequest, Outcome  # noqa: E402
from surefoot.service.trial.trial import open_trial  # noqa: E402
from surefoot.service.updates import updates  # noqa: E402

SECONDS = 1.0
"""Of one turn of a route."""
PEOPLE = 40
CLIENTS = {1: 0.5, 8: 1.0, 32: 1.5}
"""How many ask at once, and the share of the plain driver's decisions per second that the service should reach."""
ROUTES = {
    "sqlalchemy": "service:insert_by_sqlalchemy",
    "driver": "service:insert_by_driver",
    "surefoot": "surefoot.service.app:from_environment",
}
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
decision_gap_minutes = 0
[trial.guard_rails]
max_removed = 1.0
max_send_rate_change = 1.0
max_influence = 1.0
[trial.limits]
requests_per_second = 1000000
"""
WHEN = "2026-03-01T10:00:00Z"
LATER = "2026-03-01T12:00:00Z"
LEARNED = 20
"""Decision points of each participant before the measurement."""
INDICES = Counter()
"""Decision points of each participant in it."""


class Body(BaseModel):
    participant_id: str
    decision_idx: int
    timestamp: str
    availability: bool
    context: dict[str, float]


def make_bare_app(insert_row):
    """The least that a service which records something can do: one route, one INSERT."""
    app = FastAPI()

    @app.post("/api/v1/decisions")
    def insert(body: Body) -> dict[str, str]:
        row_id = uuid.uuid4().hex
        insert_row(row_id, body.model_dump_json())
        return {"id": row_id}

    return app


def insert_by_sqlalchemy():
    """With the service's own engine."""
    database = databases.connect(os.environ["SUREFOOT_DATABASE"])
    table = sa.Table("bare", sa.MetaData(), sa.Column("id", sa.String(32), primary_key=True), sa.Column("body", sa.Text))

    def insert_row(row_id, text):
        with database.engine.begin() as connection:
            connection.execute(sa.insert(table), {"id": row_id, "body": text})

    return make_bare_app(insert_row)


def insert_by_driver():
    """Without SQLAlchemy, and without threads that poll for SQLite's lock."""
    url = make_url(os.environ["SUREFOOT_DATABASE"])
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(url.database, check_same_thread=False, isolation_level=None)
        for setting in databases.PRAGMAS:
            connection.execute(f"PRAGMA {setting}")
        lock = threading.Lock()

        def insert_row(row_id, text):
            with lock:
                connection.execute("INSERT INTO bare VALUES (?, ?)", (row_id, text))

        return make_bare_app(insert_row)
    settings = url.set(drivername="postgresql").render_as_string(hide_password=False)
    own = threading.local()

    def insert_row(row_id, text):
        if not hasattr(own, "connection"):
            own.connection = psycopg.connect(settings, autocommit=True)
        own.connection.execute("INSERT INTO bare VALUES (%s, %s)", (row_id, text))

    return make_bare_app(insert_row)


@contextmanager
def served(factory, workers, environment):
    port = free_port()
    # Both the same way, as surefoot serve does it.
    call = f"listen({factory!r}, '127.0.0.1', {port}, {workers}, log_level='warning')"
    script = f"from surefoot.service.server import listen\nif __name__ == '__main__':\n    {call}\n"
    (Path(environment["SUREFOOT_STUDY"]).parent / "listen.py").write_text(script)
    command = [sys.executable, str(Path(environment["SUREFOOT_STUDY"]).parent / "listen.py")]
    environment = {**environment, "PYTHONPATH": f"{ROOT / 'benchmarks'}{os.pathsep}{ROOT / 'src'}"}
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        cwd=ROOT / "benchmarks",
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    guard = Guard.of_group(process.pid)
    try:
        for _ in range(3000):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        else:
            raise SystemExit(f"{factory} did not start")
        time.sleep(2 if workers > 1 else 0.5)
        yield port, process.pid
    finally:
        guard.release()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read_processor_seconds(group):
    """Of all processes of a server, so far."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def body(participant, index):
    context = {"weather": index % 7 / 7, "engagement": index % 11 / 11, "fatigue": index % 13 / 13}
    return {
        "participant_id": participant,
        "decision_idx": index,
        "timestamp": (datetime.fromisoformat(WHEN) + timedelta(seconds=index)).isoformat(),
        "availability": True,
        "context": context,
    }


class Client:
    """One connection that asks, waits for the answer and asks again, with little work of its own."""

    def __init__(self, port, key, number):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            "POST /api/v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: "
        )
        self._participant = f"p{number}"
        self._received = b""
        self.latencies = []

    def send(self):
        text = json.dumps(body(self._participant, LEARNED + INDICES[self._participant]))
        INDICES[self._participant] += 1
        self._start = time.perf_counter()
        self.socket.sendall(f"{self._head}{len(text)}\r\n\r\n{text}".encode())

    def receive(self):
        """Whether the answer is complete."""
        self._received += self.socket.recv(65536)
        head, found, content = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if not found or len(content) < int(length[1]):
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._received[:400].decode())
        self.latencies.append(time.perf_counter() - self._start)
        self._received = b""
        return True


def load(port, key, clients, seconds):
    """Latencies of all requests that some clients got answered in some seconds, one after the other each."""
    chosen = selectors.DefaultSelector()
    all_clients = [Client(port, key, number) for number in range(clients)]
    end = time.perf_counter() + seconds
    for one in all_clients:
        chosen.register(one.socket, selectors.EVENT_READ, one)
        one.send()
    waiting = clients
    while waiting:
        for event, _ in chosen.select(30):
            if event.data.receive():
                if time.perf_counter() < end:
                    event.data.send()
                else:
                    waiting -= 1
    for one in all_clients:
        one.socket.close()
    return np.concatenate([np.array(one.latencies) for one in all_clients])


def prepared(url):
    """A trial with a live policy for everybody, and the bare route's table."""
    trial = open_trial(Study.parse(STUDY), url)
    rng = np.random.default_rng(0)
    for participant in (f"p{number}" for number in range(PEOPLE)):
        participants.register_participant(trial.database, participant)
        told = []
        for index in range(LEARNED):
            request = DecisionRequest.model_validate(body(participant, index))
            decision = json.loads(decisions.decide(trial, request))["decision_id"]
            told.append(Outcome(decision_id=decision, outcome=float(rng.normal()), timestamp=LATER))
        decisions.record_outcomes(trial, told)
    if updates.run_update(trial, updates.begin_update(trial, "benchmark")) != "done":
        raise SystemExit("the benchmark's policy did not go live")
    with trial.database.transaction() as connection:
        connection.exec_driver_sql("CREATE TABLE bare (id VARCHAR(32) PRIMARY KEY, body TEXT)")
    key = access.create_key(trial.database, "app")
    trial.close()
    return key


def compare(url, workers, study_file, rounds):
    """Rates and latencies for every number of clients, the two servers in turns."""
    INDICES.clear()
    key = prepared(url)
    environment = {"SUREFOOT_DATABASE": url, "SUREFOOT_STUDY": str(study_file), "OPENBLAS_NUM_THREADS": "1"}
    results = {}
    with ExitStack() as servers:
        running = {name: servers.enter_context(served(factory, workers, environment)) for name, factory in ROUTES.items()}
        for clients in CLIENTS:
            times = {name: [] for name in running}
            processor = dict.fromkeys(running, 0.0)
            # The first round warms up and does not count.
            for number in range(-1, rounds):
                for name, (port, group) in running.items():
                    seconds = SECONDS if number >= 0 else 0.5
                    before = read_processor_seconds(group)
                    latencies = load(port, key, clients, seconds)
                    if number >= 0:
                        times[name].append(latencies)
                        processor[name] += read_processor_seconds(group) - before
            results[str(clients)] = summarise(times, processor)
    return results


def summarise(times, processor):
    rates = {name: np.array([len(one) / SECONDS for one in rounds]) for name, rounds in times.items()}
    result = {
        name: {
            "per_second": round(float(np.median(rates[name])), 1),
            **{
                f"p{percent}_ms": round(1e3 * float(np.percentile(np.concatenate(rounds), percent)), 2)
                for percent in (50, 95, 99)
            },
        }
        for name, rounds in times.items()
    }
    for name, rounds in times.items():
        result[name]["processor_ms"] = round(1e3 * processor[name] / sum(map(len, rounds)), 3)
    for name in ("sqlalchemy", "driver"):
        result[name]["processor_ratio"] = round(result[name]["processor_ms"] / result["surefoot"]["processor_ms"], 3)
        result[name]["ratio"] = round(float(np.median(rates["surefoot"] / rates[name])), 3)
        result[name]["p99_ratio"] = round(result["surefoot"]["p99_ms"] / result[name]["p99_ms"], 3)
    return result


def parse_attack(parser, name):
    """The arguments of an attack that runs on one kind of database after the other, and adds to a file of results."""
    parser.add_argument("--database", choices=["sqlite", "postgresql"], nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / name)
    wanted = parser.parse_args()
    if "postgresql" in wanted.database and binaries() is None:
        raise SystemExit("PostgreSQL is not installed: apt-get install postgresql")
    return wanted


@contextmanager
def empty_database(kind):
    """The URL of a database that is gone afterwards, and a folder."""
    with tempfile.TemporaryDirectory() as folder, cluster(binaries()) if kind == "postgresql" else nullcontext() as server:
        yield f"sqlite:///{folder}/trial.db" if server is None else f"{server}/postgres", folder


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--database", choices=["sqlite", "postgresql"], nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "service.json")
    wanted = parser.parse_args()
    results = {"seconds": SECONDS, "rounds": wanted.rounds, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    results["databases"] = {}
    given = os.environ.get("SUREFOOT_TEST_POSTGRES")
    with tempfile.TemporaryDirectory() as folder:
        study_file = Path(folder) / "study.toml"
        study_file.write_text(STUDY)
        for workers in wanted.workers if "sqlite" in wanted.database else ():
            url = f"sqlite:///{folder}/trial-{workers}.db"
            results["databases"][f"SQLite, {workers} worker(s)"] = compare(url, workers, study_file, wanted.rounds)
        server = nullcontext(given) if given else cluster(binaries()) if binaries() else None
        if server is None:
            print("PostgreSQL is not installed and SUREFOOT_TEST_POSTGRES is not set: not measured")
        elif "postgresql" in wanted.database:
            with server as found:
                for workers in wanted.workers:
                    with postgres_database(found) as url:
                        results["databases"][f"PostgreSQL, {workers} worker(s)"] = compare(
                            url, workers, study_file, wanted.rounds
                        )
    results["versions"] = {"surefoot": __version__, "sqlalchemy": sa.__version__, "python": platform.python_version()}
    show(results)
    wanted.out.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def show(results):
    print(f"load of the machine before: {results['load_before']:.1f}")
    print(f"{'':<48}{'per second':>10}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'CPU ms':>8}")
    for database, by_clients in results["databases"].items():
        for clients, rows in by_clients.items():
            for name, row in rows.items():
                latencies = "".join(f"{row[f'p{percent}_ms']:>9.1f}" for percent in (50, 95, 99))
                title = f"{database}, {clients} client(s), {name}"
                print(f"{title:<48}{row['per_second']:>10.0f}{latencies}{row['processor_ms']:>8.2f}")
    print("\nSurefoot's decisions as a share of a bare route's: in a second (for the same processor time of the server)")
    print(f"{'':<36}" + "".join(f"{clients:>10} client(s)" for clients in CLIENTS))
    print(f"{'goal, compared with the driver':<36}" + "".join(f"{goal:>20.1f}" for goal in CLIENTS.values()))
    for database, by_clients in results["databases"].items():
        for name in ("sqlalchemy", "driver"):
            shares = (f"{rows[name]['ratio']:.2f} ({rows[name]['processor_ratio']:.2f})" for rows in by_clients.values())
            print(f"{f'{database}, {name}':<36}" + "".join(f"{share:>20}" for share in shares))


if __name__ == "__main__":
    main()
