"""Memory of the service over 100,000 decisions through the application, on SQLite: it does not grow with the trial."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import service  # noqa: E402
from surefoot import Study  # noqa: E402
from surefoot.service.api.group_commit import DecisionRecorder  # noqa: E402
from surefoot.service.trial.api_models import DecisionRequest  # noqa: E402
from surefoot.service.trial.trial import open_trial  # noqa: E402

DECISIONS, AT_ONCE = 100_000, 40


def read_megabytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


async def run(trial):
    recorder, found = DecisionRecorder(trial), {}
    for index in range(DECISIONS // AT_ONCE):
        asked = [DecisionRequest.model_validate(service.body(f"p{one}", 1000 + index)) for one in range(AT_ONCE)]
        await asyncio.gather(*(recorder.decide(one) for one in asked))
        done = (index + 1) * AT_ONCE
        if done % 20_000 == 0:
            found[done] = read_megabytes()
            print(done, found[done], flush=True)
    recorder.close()
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/trial.db"
        service.prepared(url)
        trial = open_trial(Study.parse(service.STUDY), url)
        found = asyncio.run(run(trial))
        trial.close()
    (ROOT / "benchmarks" / "memory.json").write_text(json.dumps({"decisions_to_megabytes": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
