"""The daily digest: how the last day went, in counts."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, decisions, outcomes, updates
from surefoot.service.trial.trial import Trial


def write_digest(trial: Trial, at: datetime) -> str:
    """Decisions by source, prompts, outcomes, open alerts, the live policy and the last update."""
    since = decisions.c.received_at > at - timedelta(days=1)
    with trial.database.snapshot() as connection:
        sources = connection.execute(
            sa.select(decisions.c.source, sa.func.count()).where(since).group_by(decisions.c.source)
        )
        by_source = {row[0]: int(row[1]) for row in sources}
        people = connection.scalar(sa.select(sa.func.count(decisions.c.participant_id.distinct())).where(since))
        sent = connection.scalar(sa.select(sa.func.count()).where(since, decisions.c.action > 0))
        came = connection.scalar(sa.select(sa.func.count()).where(outcomes.c.received_at > at - timedelta(days=1)))
        unclosed = connection.scalar(sa.select(sa.func.count()).where(alerts.c.closed_at.is_(None)))
        last = connection.execute(sa.select(updates).order_by(updates.c.id.desc()).limit(1)).first()
    live = trial.policies.live()
    shares = ", ".join(f"{number} by {source}" for source, number in sorted(by_source.items()))
    lines = [
        "The last 24 hours:",
        f"- {sum(by_source.values())} decisions of {people} participants" + (f" ({shares})" if shares else ""),
        f"- {sent} prompts, {came} outcomes",
        f"- {unclosed} open alerts",
        "- " + ("no policy is live" if live is None else f"policy {live[0]} is live"),
        "- " + ("no update yet" if last is None else f"last update: {last.id}, {last.state}"),
    ]
    return "\n".join(lines)
