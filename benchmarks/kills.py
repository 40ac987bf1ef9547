"""Kill −9 under load, many times: the server, a worker, an update, the database. Nothing acknowledged is lost or doubled.

`python benchmarks/kills.py --kills 200` does so once on SQLite, which has no process of its own to kill, and once on
PostgreSQL, which needs its programs; benchmarks/kills.json has what was found.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from tests.service.support.client import request  # noqa: E402
from tests.service.support.postgres import as_server, binaries  # noqa: E402
from tests.service.support.servers import ForkedServer, forking  # noqa: E402
from tests.service.support.trials import STUDY  # noqa: E402

from service import empty_database, parse_attack  # noqa: E402
from surefoot import Study  # noqa: E402
from surefoot.service import access  # noqa: E402
from surefoot.service.database.schema import decisions, outcomes, updates  # noqa: E402
from surefoot.service.trial.participants import register_participant  # noqa: E402
from surefoot.service.trial.trial import open_trial  # noqa: E402
from surefoot.service.trial.verification import replay, verify  # noqa: E402

PEOPLE = 6


class Load:
    """A participant's app: it repeats what was not acknowledged, and remembers what was."""

    def __init__(self, server, number):
        self._server, self.participant = server, f"p{number}"
        self.decided, self.told, self.wrong = {}, [], []

    def run(self, stop):
        index = 0
        while not stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=12)
            try:
                index += self._ask(connection, index)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
            finally:
                connection.close()

    def _ask(self, connection, index):
        body = request(self.participant, index)
        status, reply = self._server.ask("POST", "/api/v1/decisions", body, self._server.key, connection)
        if status != 200:
            return self._note(status, reply)
        if self.decided.setdefault(index, reply) != reply:
            self.wrong.append("another answer to the same request")
        decision = json.loads(reply)["decision_id"]
        outcome = {"decision_id": decision, "outcome": index % 17 / 17, "timestamp": body["timestamp"]}
        status, reply = self._server.ask("POST", "/api/v1/outcomes", outcome, self._server.key, connection)
        if status != 200:
            return self._note(status, reply)
        self.told.append((decision, index % 17 / 17))
        return 1

    def _note(self, status, reply):
        if status != 503:
            self.wrong.append(f"{status}: {reply[:200]!r}")
        time.sleep(0.05)
        return 0


class Database:
    """The cluster's postmaster, to be killed and started again."""

    def __init__(self, trial):
        with trial.database.autocommit() as connection:
            self._data = Path(connection.exec_driver_sql("SHOW data_directory").scalar())

    def kill(self):
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        words = re.findall(r'"([^"]*)"', (self._data / "postmaster.opts").read_text())
        options = " ".join(f"'{word}'" for word in words if word not in ("-D", str(self._data)))
        start = [binaries() / "pg_ctl", "-D", self._data, "-o", options, "-l", "/dev/null", "-w", "start"]
        command, nowhere = as_server([str(part) for part in start]), subprocess.DEVNULL
        for _ in range(50):
            # Not captured: the server would keep the pipe open for as long as it lives.
            if subprocess.run(command, check=False, stdout=nowhere, stderr=nowhere, cwd="/").returncode == 0:
                return
            time.sleep(0.2)
        raise SystemExit("the database did not start again")


def find_processes(words):
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and words in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def kill_update(server, admin):
    """Start an update and kill its process a moment later."""
    try:
        server.ask("POST", "/api/v1/updates", {}, admin)
    except (OSError, http.client.HTTPException):
        return False
    time.sleep(random.uniform(0, 1.0))
    mine = [one for one in find_processes(b"surefoot.service.updates.updates") if belongs(one, server)]
    for one in mine:
        os.kill(one, signal.SIGKILL)
    return bool(mine)


def belongs(process, server):
    """Others may run trials of their own on this machine."""
    try:
        return server.url.encode() in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def kill_worker(server):
    """One of the two workers; the server starts no new one, so the whole is started again."""
    os.kill(server.leader, signal.SIGKILL)
    time.sleep(0.1)
    restart(server)


def restart(server):
    with suppress(ProcessLookupError):
        server.kill()
    server.start()


def run(kills, url, folder, parent):
    study_file = Path(folder) / "study.toml"
    study_file.write_text(STUDY)
    trial = open_trial(Study.parse(STUDY), url)
    server = ForkedServer(parent, study_file, url, workers=2)
    server.url, server.key = url, access.create_key(trial.database, "app")
    admin = access.create_key(trial.database, "admin")
    server.start()
    rng, stop, done = random.Random(1), threading.Event(), Counter()
    loads = [Load(server, number) for number in range(PEOPLE)]
    for one in loads:
        register_participant(trial.database, one.participant)
    threads = [threading.Thread(target=one.run, args=(stop,)) for one in loads]
    for thread in threads:
        thread.start()
    ways = {
        "server": lambda: restart(server),
        "worker": lambda: kill_worker(server),
        "update": lambda: kill_update(server, admin),
    }
    if not trial.database.is_sqlite:
        ways["database"] = Database(trial).kill
    while sum(done.values()) < kills:
        time.sleep(rng.uniform(0.1, 0.5))
        kind = rng.choices(list(ways), [4, 2, 3, 1][: len(ways)])[0]
        if ways[kind]() is not False:
            done[kind] += 1
            print(dict(done), sum(len(one.decided) for one in loads), flush=True)
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    server.kill()
    trial.database.engine.dispose()
    found = judge(trial, loads)
    trial.close()
    return {"kills": dict(done), **found}


def judge(trial, loads):
    with trial.database.autocommit() as connection:
        rows = connection.execute(sa.select(decisions)).mappings().all()
        values = [tuple(one) for one in connection.execute(sa.select(outcomes.c.decision_id, outcomes.c.outcome))]
        states = Counter(connection.scalars(sa.select(updates.c.state)))
    stored = {(row["participant_id"], row["decision_idx"]): row["reply"].encode() for row in rows}
    acknowledged = [(one.participant, index, reply) for one in loads for index, reply in one.decided.items()]
    told = [pair for one in loads for pair in one.told]
    return {
        "acknowledged_decisions": len(acknowledged),
        "acknowledged_outcomes": len(told),
        "lost_decisions": sum(stored.get((person, index)) != reply for person, index, reply in acknowledged),
        "lost_outcomes": len(set(told) - set(values)),
        "doubled_decisions": len(rows) - len(stored),
        "doubled_outcomes": len(values) - len(set(values)),
        "wrong_answers": [wrong for one in loads for wrong in one.wrong][:20],
        "replay_differences": len(replay(trial.database).differences),
        "ledger_discrepancies": len(verify(trial.database).discrepancies),
        "updates": dict(states),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    wanted = parse_attack(parser, "kills.json")
    found = json.loads(wanted.out.read_text(encoding="utf-8")) if wanted.out.exists() else {}
    for kind in wanted.database:
        with empty_database(kind) as (url, folder), forking() as parent:
            found[kind] = run(wanted.kills, url, folder, parent)
        print(json.dumps({kind: found[kind]}, indent=2))
        wanted.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
