"""Run a whole simulated trial against a live server: randomise, record, learn each night, account for everything.

    python examples/trial/run.py

50 participants of the HeartSteps model, 42 days of five decision points, with dead sensors, blank and careless answers,
outcomes that come late, twice, corrected or never, and steps that are really the handling of the phone. The server is a
real one on loopback; only its clock is set by this script. At the end: the export is checked against what really happened,
every draw is replayed, and the learned policy is explained.
"""

import argparse
import csv
import io
import json
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from participants import BEGIN, HOURS, Participants
from server import Server

from surefoot.client import Client, ConflictError

HERE = Path(__file__).parent
ENDED = ("done", "waiting", "refused", "failed", "interrupted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--days", type=int, default=42)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument(
        "--out", type=Path, default=Path("results/trial"), help="folder for everything; an earlier trial there is replaced"
    )
    parser.add_argument("--stay", action="store_true", help="keep the server for a look at its dashboard, until Ctrl-C")
    options = parser.parse_args()
    out = emptied(options.out.resolve())
    study = shutil.copy(HERE / "study.toml", out)
    people = Participants(options.people, options.seed)
    server = Server(out, study, options.workers)
    server.set_clock(BEGIN)
    began = time.monotonic()
    with server:
        keys = {role: server.command("keys", "create", "--role", role) for role in ("app", "analyst", "admin")}
        with Client(server.url, keys["app"], queue=out / "outcomes") as client:
            run_days(server, keys["admin"], client, people, options.days)
        summary = account(server, keys, people, out) | {"seconds": round(time.monotonic() - began, 1)}
        (out / "summary.json").write_text(json.dumps(summary, indent=2))
        print(f"\nThe trial took {summary['seconds']:.0f} seconds. Everything is in {options.out}.")
        if options.stay:
            stay(server, keys)


def emptied(out):
    """The folder, without the trial that was there; never without anything else."""
    if out.exists() and any(out.iterdir()):
        if not (out / "trial.db").exists():
            raise SystemExit(f"{out} holds something else than a trial of this example; choose another folder")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    return out


def run_days(server, admin, client, people, days):
    """Decision points by day, an update by night."""
    with ThreadPoolExecutor(4) as phones:
        list(phones.map(client.register, people.names))
        print(f"{people.number} participants. Each day: decisions by source, share sent; each night: an update.\n")
        print("  day  policy  warm-up  fallback  unavailable   sent   update    used  removed  live policy")
        for day in range(days):
            sources, sent = Counter(), 0
            for point in range(len(HOURS)):
                move_clock(server, client, people, BEGIN + timedelta(days=day, hours=HOURS[point]))
                asked = people.requests(day, point)
                decisions = list(phones.map(lambda request: decide(client, request), asked))
                sources.update(decision.source for decision in decisions)
                sent += sum(decision.action > 0 for decision in decisions)
                people.live_on(day, point, decisions)
            move_clock(server, client, people, BEGIN + timedelta(days=day + 1, hours=3))
            say(day, sources, sent, update(server, admin))
        # What is still on its way arrives, or is too late; then the last update.
        move_clock(server, client, people, BEGIN + timedelta(days=days + 3, hours=3))
        print(f"after three more days: the last update is {update(server, admin)['state']}")


def move_clock(server, client, people, now):
    """Time passes; outcomes that are on their way arrive: first on the app server's disk, then at the service."""
    server.set_clock(now)
    client.queue_outcomes(people.outcomes(now))
    wrong = [receipt for receipt in client.flush() if not receipt.kept or receipt.probability_agrees is False]
    if wrong:
        raise SystemExit(f"outcomes were not taken: {wrong[:3]}")


def decide(client, request):
    """Ask; now and then ask again, as a phone does that lost the answer, and once with another context."""
    decision = client.decide(**request)
    if request["decision_idx"] % 41 == 7:
        if client.decide(**request) != decision:
            raise SystemExit("a retry got another answer")
        try:
            client.decide(**{**request, "context": {**request["context"], "weather": 0.123}})
        except ConflictError:
            return decision
        raise SystemExit("a retry with another context was not refused")
    return decision


def update(server, admin):
    """The nightly update, from its start to its end."""
    found = server.get("POST", "/updates", key=admin)
    while found["state"] not in ENDED:
        time.sleep(0.05)
        found = server.get("GET", f"/updates/{found['id']}", key=admin)
    return found


def say(day, sources, sent, found):
    available = sum(sources.values()) - sources["unavailable"]
    counts = f"{sources['policy']:>8}{sources['warm-up']:>9}{sources['fallback']:>10}{sources['unavailable']:>13}"
    learned = f"{found['result'].get('used', 0):>8,}{found['result'].get('removed', 0):>9,}"
    live = found["policy_id"] if found["state"] == "done" else "as before"
    print(f"{day + 1:>5}{counts}{sent / available:>7.0%}   {found['state']:<8}{learned}  {live:>11}", flush=True)


def account(server, keys, people, out):
    """Export, checked against what really happened; replay; the policy's card."""
    status, content = server.ask("GET", "/api/v1/export/decisions", key=keys["analyst"])
    if status != 200:
        raise SystemExit(f"the export was refused with {status}")
    (out / "decisions.csv").write_bytes(content)
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    wrong = [row["decision_id"] for row in rows if not matches(row, people.truth)]
    missing = people.truth.keys() - {row["decision_id"] for row in rows}
    print(f"\nExport: {len(rows):,} decisions, {len(missing)} missing, {len(wrong)} with another outcome than it should be")
    replayed = server.command("replay")
    print(f"Replay: {replayed}")
    policies = server.get("GET", "/policies", key=keys["admin"])["policies"]
    removed = learned(server, keys, policies, people)
    card(server, out)
    sources = Counter(row["source"] for row in rows)
    summary = {"decisions": len(rows), "missing": len(missing), "wrong_outcomes": len(wrong), "replay": replayed}
    return {**summary, "sources": sources, "policies": len(policies), **removed}


def matches(row, truth):
    expected = truth[row["decision_id"]].steps
    return row["steps"] == "" if expected is None else row["steps"] != "" and abs(float(row["steps"]) - expected) < 1e-6


def learned(server, keys, policies, people):
    """What the last update removed, beside what really was an artefact."""
    live = next((policy for policy in policies if policy["live"]), None)
    if live is None:
        return {"removed": 0, "removed_artefacts": 0}
    result = server.get("GET", f"/updates/{live['update_id']}", key=keys["admin"])["result"]
    listed = [people.truth[row["decision_id"]].artefact for row in result["removed_rows"]]
    print(f"Outliers: the last update removed {result['removed']:,} of {result['used']:,} decision points;", end=" ")
    print(f"of {len(listed)} listed, {sum(listed)} were handling of the phone")
    return {"removed": result["removed"], "removed_artefacts": sum(listed)}


def card(server, out):
    """The learned policy in words."""
    files = ("--html", out / "policy.html", "--markdown", out / "policy.md")
    print("\n" + server.command("explain", out / "decisions.csv", "--study", out / "study.toml", *files))


def stay(server, keys):
    print(f"\nThe dashboard is at http://127.0.0.1:{server.port}/ until Ctrl-C. An admin's key:\n{keys['admin']}")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
