"""Decisions per second through the shipped nginx while 20 connections without a key hammer `/docs` or `/readyz`.

`python benchmarks/anonymous_requests.py` asks in turns, in one run, on SQLite and on PostgreSQL, and writes
benchmarks/anonymous_requests.json: the median over rounds of the rate with the hammering divided by the rate before it. The
hammer is a process of its own on the same machine, with the lowest priority (`--nice`); what it still takes from the
processor makes the ratio a lower limit. Only nginx's limit on requests with a key is raised, which the measurement itself
would reach.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.service.support.nginx import NGINX, OPENSSL, Proxy  # noqa: E402

from service import INDICES, LEARNED, STUDY, binaries, body, cluster, prepared, served  # noqa: E402

CLIENTS = 8
CONNECTIONS = 20
SECONDS = 3.0
PATHS = ("/docs", "/readyz")


def connect(proxy):
    connection = http.client.HTTPConnection("trial.example.org")
    connection.sock = proxy.connect()
    return connection


def hammer(proxy, path, niceness, stop, answered):
    """Ask for a page again and again on many connections."""
    os.nice(niceness)

    def ask():
        while not stop.is_set():
            with suppress(OSError, http.client.HTTPException):
                connection = connect(proxy)
                while not stop.is_set():
                    connection.request("GET", path)
                    connection.getresponse().read()
                    with answered.get_lock():
                        answered.value += 1

    threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def count_decisions(proxy, key):
    """Decisions per second of some clients that ask, wait for the answer and ask again."""
    counts = []
    end = time.perf_counter() + SECONDS
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def decide(participant):
        connection = connect(proxy)
        count = 0
        while time.perf_counter() < end:
            index = LEARNED + INDICES[participant]
            INDICES[participant] += 1
            connection.request("POST", "/api/v1/decisions", json.dumps(body(participant, index)), headers)
            reply = connection.getresponse()
            content = reply.read()
            if reply.status != 200:
                raise SystemExit(f"{reply.status}: {content}")
            count += 1
        connection.close()
        counts.append(count)

    threads = [threading.Thread(target=decide, args=(f"p{number}",)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) < CLIENTS:
        raise SystemExit("a client got no answer")
    return sum(counts) / SECONDS


def measure_hammered(proxy, key, path, niceness):
    spawning = multiprocessing.get_context("fork")
    stop = spawning.Event()
    answered = spawning.Value("q", 0)
    process = spawning.Process(target=hammer, args=(proxy, path, niceness, stop, answered), daemon=True)
    process.start()
    time.sleep(0.5)
    before = answered.value
    rate = count_decisions(proxy, key)
    hits = (answered.value - before) / SECONDS
    stop.set()
    process.join(20)
    return rate, hits


def compare(url, folder, rounds, niceness):
    INDICES.clear()
    key = prepared(url)
    study_file = Path(folder) / "study.toml"
    study_file.write_text(STUDY)
    environment = {"SUREFOOT_DATABASE": url, "SUREFOOT_STUDY": str(study_file), "OPENBLAS_NUM_THREADS": "1"}
    raised = {"zone=surefoot_requests:10m rate=100r/s": "zone=surefoot_requests:10m rate=100000r/s"}
    ratios = {path: [] for path in PATHS}
    rates = {"alone": [], **{path: [] for path in PATHS}}
    hits = {path: [] for path in PATHS}
    with (
        served("surefoot.service.app:from_environment", 1, environment) as (port, _),
        Proxy(Path(folder), port, raised) as proxy,
    ):
        count_decisions(proxy, key)
        for _ in range(rounds):
            for path in PATHS:
                alone = count_decisions(proxy, key)
                rate, answered = measure_hammered(proxy, key, path, niceness)
                rates["alone"].append(alone)
                rates[path].append(rate)
                hits[path].append(answered)
                ratios[path].append(rate / alone)
    return {
        "decisions_per_second": {name: round(statistics.median(values), 1) for name, values in rates.items()},
        "anonymous_requests_per_second": {name: round(statistics.median(values), 1) for name, values in hits.items()},
        "ratio": {path: round(statistics.median(values), 3) for path, values in ratios.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nice", type=int, default=19, help="of the hammer: 19 for the lowest priority, 0 for an equal one")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "anonymous_requests.json")
    wanted = parser.parse_args()
    if not (NGINX and OPENSSL and binaries()):
        raise SystemExit("install nginx, openssl and PostgreSQL: apt-get install nginx-light openssl postgresql")
    results = {"clients": CLIENTS, "connections": CONNECTIONS, "seconds": SECONDS, "rounds": wanted.rounds}
    for kind in wanted.database:
        with (
            tempfile.TemporaryDirectory() as folder,
            cluster(binaries()) if kind == "postgresql" else nullcontext() as server,
        ):
            url = f"sqlite:///{folder}/trial.db" if server is None else f"{server}/postgres"
            results[kind] = compare(url, folder, wanted.rounds, wanted.nice)
        print(json.dumps({kind: results[kind]}, indent=2), flush=True)
        wanted.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
