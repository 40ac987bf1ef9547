"""Play ten people for three days at the service of `surefoot serve --demo`, as the server of an app would.

`surefoot serve --demo` copies this file to its folder: read it, change it and run it again.
"""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np

from surefoot.client import Client, Decision, Outcome

PEOPLE = [f"p-{number:03d}" for number in range(1, 11)]
DECISION_POINTS = 24
PAUSE = timedelta(hours=3)
"""Between two decision points."""


def measure_context(rng: np.random.Generator) -> dict[str, float | None]:
    """The variables that the study names; None where the phone has no value."""
    temperature = None if rng.random() < 0.05 else round(rng.normal(14, 7), 1)
    sliders = {name: float(rng.integers(0, 101)) for name in ("motivated", "tired", "stressed")}
    return {"temperature": temperature, **sliders}


def observe_outcome(rng: np.random.Generator, decision: Decision, time: datetime) -> Outcome:
    """Steps of the next three hours; a suggestion adds about 100."""
    return decision.outcome(round(rng.normal(600 + 100 * decision.action, 150)), time + PAUSE)


def main() -> None:
    """Register everybody, ask for decisions, and send the outcomes."""
    rng = np.random.default_rng()
    sources: Counter[str] = Counter()
    with Client(os.environ["SUREFOOT_URL"], os.environ["SUREFOOT_KEY"]) as client:
        for person in PEOPLE:
            client.register(person)  # repeating it is harmless
            state = client.next_decision(person)
            time = state.not_before or datetime.now(UTC) - timedelta(days=10)
            outcomes = []
            for number in range(DECISION_POINTS):
                time += PAUSE
                decision = client.decide(person, state.next_decision_idx + number, time, measure_context(rng))
                outcomes.append(observe_outcome(rng, decision, time))
                sources[decision.source] += 1
            client.send_outcomes(outcomes)
    print(f"{sum(sources.values())} decisions for {len(PEOPLE)} people, by source: {dict(sources)}")


if __name__ == "__main__":
    main()
