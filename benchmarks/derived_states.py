"""Replay accuses no honest trial: outcome i and decision i + 1 of every participant are sent together, over HTTP.

The study derives states from earlier outcomes, so every state depends on which outcomes the service knew. Each participant's
app has two connections to a server with two workers; every third outcome is corrected at the same moment, and an update puts
a policy live twice. Then every decision is replayed and the ledger verified.

`python benchmarks/derived_states.py --decisions 50000` does so on SQLite and on PostgreSQL; benchmarks/derived_states.json
has what was found, added up over runs.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from service import STUDY, WHEN, empty_database, parse_attack, served  # noqa: E402
from surefoot import Study  # noqa: E402
from surefoot.service import access  # noqa: E402
from surefoot.service.trial.participants import register_participant  # noqa: E402
from surefoot.service.trial.trial import open_trial  # noqa: E402
from surefoot.service.trial.verification import replay, verify  # noqa: E402
from surefoot.service.updates import updates  # noqa: E402

DERIVED = STUDY.replace(
    "[state.fatigue]\n",
    '[state.lately]\nderived = "outcome mean"\nstart = 0\n[state.prompts]\nderived = "dose"\n',
)
POINTS = 100
"""Decision points of a participant."""
TOGETHER = 16
"""Participants whose apps run at the same time."""
COUNTED = ("decisions", "outcomes", "outcomes_known_to_the_next_decision", "differences", "discrepancies")


class App:
    """A participant's app: one connection for decisions, one for outcomes; what is answered 503 is sent again."""

    def __init__(self, port, key, participant):
        self._port = port
        self._key = key
        self._participant = participant
        self.statuses = Counter()

    async def live(self):
        self._ways = {name: await asyncio.open_connection("127.0.0.1", self._port) for name in ("decisions", "outcomes")}
        reply = await self._send("decisions", self._write_decision(0))
        for index in range(1, POINTS):
            moment = datetime.fromisoformat(WHEN) + timedelta(hours=2 * index - 1)
            outcome = {"decision_id": reply["decision_id"], "outcome": index * 7 % 11 / 11}
            outcome["timestamp"] = moment.isoformat()
            given = [outcome]
            if index % 3 == 0:
                given.append({**outcome, "outcome": 0.9, "timestamp": (moment + timedelta(minutes=5)).isoformat()})
            reply, _ = await asyncio.gather(
                self._send("decisions", self._write_decision(index)), self._send("outcomes", {"outcomes": given})
            )
        for _, writer in self._ways.values():
            writer.close()

    def _write_decision(self, index):
        return {
            "participant_id": self._participant,
            "decision_idx": index,
            "timestamp": (datetime.fromisoformat(WHEN) + timedelta(hours=2 * index)).isoformat(),
            "availability": index % 10 != 9,
            "reasons": ["driving"] if index % 10 == 9 else [],
            "context": {"weather": index % 7 / 7, "engagement": index % 13 / 13},
        }

    async def _send(self, route, body):
        reader, writer = self._ways[route]
        text = json.dumps(body)
        head = f"POST /api/v1/{route} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._key}"
        while True:
            writer.write(f"{head}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            reply = json.loads(await reader.readexactly(length))
            status = int(lines[0].split()[1])
            self.statuses[f"{route} {status}"] += 1
            if status == 200:
                return reply
            if status != 503:
                raise SystemExit(f"{status}: {reply}")
            await asyncio.sleep(0.1)


async def live_together(apps, do_between):
    """All apps, some at a time; `do_between` is called after each third of them."""
    waiting = asyncio.Semaphore(TOGETHER)
    done = Counter()

    async def live(app):
        async with waiting:
            await app.live()
        done["people"] += 1
        if done["people"] % max(1, len(apps) // 3) == 0 and done["people"] < len(apps):
            await asyncio.to_thread(do_between)

    await asyncio.gather(*(live(app) for app in apps))


def attack(url, folder, decisions):
    study_file = Path(folder) / "study.toml"
    study_file.write_text(DERIVED)
    trial = open_trial(Study.parse(DERIVED), url)
    key = access.create_key(trial.database, "app")
    people = [f"p{number}" for number in range(decisions // POINTS)]
    for participant in people:
        register_participant(trial.database, participant)
    began = time.monotonic()
    environment = {"SUREFOOT_DATABASE": url, "SUREFOOT_STUDY": str(study_file), "OPENBLAS_NUM_THREADS": "1"}
    with served("surefoot.service.app:from_environment", 2, environment) as (port, _):
        apps = [App(port, key, participant) for participant in people]
        asyncio.run(live_together(apps, lambda: run_update(trial)))
    print(f"sent in {time.monotonic() - began:.0f} s", dict(sum((app.statuses for app in apps), Counter())), flush=True)
    found = judge(trial)
    trial.close()
    return found


def run_update(trial):
    with suppress(updates.UpdateRunningError):
        print("update:", updates.run_update(trial, updates.begin_update(trial, "attack")), flush=True)


def judge(trial):
    replayed = replay(trial.database)
    verified = verify(trial.database)
    for problem in (*replayed.differences[:5], *verified.discrepancies[:5]):
        print(problem, flush=True)
    known = (
        "SELECT count(*) FROM outcomes o JOIN decisions d ON d.id = o.decision_id JOIN decisions n ON "
        "n.participant_id = d.participant_id AND n.decision_idx = d.decision_idx + 1 WHERE o.received_at < n.received_at"
    )
    with trial.database.autocommit() as connection:
        outcomes = connection.exec_driver_sql("SELECT count(*) FROM outcomes").scalar()
        before = connection.exec_driver_sql(known).scalar()
    return dict(
        zip(
            COUNTED,
            (replayed.decisions, outcomes, before, len(replayed.differences), len(verified.discrepancies)),
            strict=True,
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=50_000)
    wanted = parse_attack(parser, "derived_states.json")
    for kind in wanted.database:
        with empty_database(kind) as (url, folder):
            found = attack(url, folder, wanted.decisions)
        print(json.dumps({kind: found}, indent=2), flush=True)
        results = json.loads(wanted.out.read_text(encoding="utf-8")) if wanted.out.exists() else {}
        total = Counter(results.get(kind, {}))
        total.update({**found, "runs": 1})
        results[kind] = dict(total)
        wanted.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
