"""Facts for reporting checklists from the database of a trial: its decisions, its staff trail and its ledger."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from surefoot.checklists.checklist import Fact, Facts, merge_facts
from surefoot.checklists.facts import (
    SETTLED,
    collect_effect_facts,
    collect_log_facts,
    collect_study_facts,
    describe_checks,
)
from surefoot.reports.numbers import format_percent
from surefoot.service.database.schema import (
    activations,
    decisions,
    participants,
    policies,
    staff_actions,
    studies,
    updates,
)
from surefoot.service.operations.board import BY_ACTION, BoardReport, Count, make_open_report, record_unblinding
from surefoot.service.operations.export import EXPORTS, describe_collection, write_policies_text
from surefoot.service.trial.trial import Trial
from surefoot.service.trial.upkeep import SEALED
from surefoot.service.trial.verification import replay, verify
from surefoot.study.trial_updates import name_beside
from surefoot.trial_rules.choices import SOURCES
from surefoot.version import __version__

TABLES = "tables decisions and outcomes"
BOARD = "surefoot report --board"


def collect_trial_facts(trial: Trial, name: str) -> Facts:
    """What a database says without outcomes by action; `name` is the study file."""
    return _collect_facts(trial, name, closed=False)


def collect_closed_facts(trial: Trial, name: str, *, reason: str, by: str) -> Facts:
    """The same with effects and checks by action; that somebody sees them, and why, is on the staff trail first."""
    record_unblinding(trial, BY_ACTION, reason=reason, by=by)
    return _collect_facts(trial, name, closed=True)


def _collect_facts(trial: Trial, name: str, *, closed: bool) -> Facts:
    report = make_open_report(trial)
    collections = [
        collect_study_facts(trial.study, name),
        _describe_report(report),
        {
            "integrity": list(_verify(trial)),
            "version": [
                Fact(f"The installed version of Surefoot is {__version__}.", "surefoot --version"),
                Fact("The database does not record which version of Surefoot drew each action.", "table decisions"),
            ],
        },
        _describe_tables(trial),
    ]
    if _find(report.records, "decision points").total:
        with tempfile.TemporaryDirectory() as folder:
            collections += _analyse_decisions(trial, Path(folder), closed=closed)
    return merge_facts(*collections)


def _analyse_decisions(trial: Trial, folder: Path, *, closed: bool) -> Iterator[Facts]:
    """Read the decisions as an analyst would read their export."""
    path = folder / "decisions.parquet"
    for kind in ("learned", "decisions", "updates"):
        EXPORTS[kind](trial, path if kind == "decisions" else name_beside(path, kind, ".parquet"), "parquet")
    name_beside(path, "policies", ".json").write_text(write_policies_text(trial), encoding="utf-8")
    collection = describe_collection(trial)
    study = trial.study.model_copy(update={"collection": collection})
    read = study.read(path)
    yield collect_log_facts(study, read, TABLES)
    yield {"collection": [Fact(f"The record shows that {SETTLED[collection.policy]}.", "tables activations and policies")]}
    if closed:
        yield describe_checks(study, read, TABLES)
        yield collect_effect_facts(study, path, TABLES)


def _describe_report(report: BoardReport) -> Facts:
    """The numbers of the open part of a report for a board."""
    reasons = Counter((row["what"], row["reason"]) for row in report.reasons)
    draws = "The draws agree with the recorded probabilities."
    if report.wrong_draws is not None:
        draws = f"Actions were not drawn with the recorded probabilities: {report.wrong_draws}."
    nobody = "Nobody was unblinded. Analysts and admins see actions by their role."
    return {
        "participants": [_state(_find(report.participants, "registered"))],
        "flow": [_state(count) for count in report.participants if count.words != "registered"]
        + [Fact(f"Reason of being {event}: {reason} ({count:,}).", BOARD) for (event, reason), count in reasons.items()],
        "deviations": [_state(count) for count in report.deviations],
        "harms": [_state(count) for count in report.events],
        "draw_checks": [Fact(draws, BOARD)],
        "blinding": [
            Fact(f"{row['at']:%Y-%m-%d %H:%M}, {row['by']} saw {row['saw']}: {row['reason']}.", "table staff_actions")
            for row in report.unblindings
        ]
        or [Fact(nobody, "table staff_actions")],
        "boundaries": list(_describe_boundaries(report)),
    }


def _state(count: Count) -> Fact:
    return Fact(f"{count.words[:1].upper()}{count.words[1:]}: {count.total:,}.", BOARD)


def _find(counts: list[Count], words: str) -> Count:
    return next(count for count in counts if count.words == words)


def _describe_boundaries(report: BoardReport) -> Iterator[Fact]:
    for boundary in report.boundaries:
        state = "no boundary is set"
        if boundary["limit"] is not None:
            crossed = boundary["crossed_on"]
            state = f"boundary {boundary['limit']:g} {boundary['unit']}, "
            state += "not crossed" if crossed is None else f"crossed on {crossed}"
        yield Fact(f"{boundary['kind'].capitalize()} ({boundary['title']}): {state}.", BOARD)


def _verify(trial: Trial) -> Iterator[Fact]:
    replayed = replay(trial.database)
    verified = verify(trial.database)
    with trial.database.autocommit() as connection:
        seals = connection.scalar(sa.select(sa.func.count()).where(staff_actions.c.action == SEALED))
    recomputed = f"{replayed.decisions:,} draws recomputed from their keys, {len(replayed.differences):,} differ"
    yield Fact(f"{recomputed}.", "surefoot replay")
    if replayed.erased:
        yield Fact(
            f"The states of {replayed.erased:,} of them were erased, so only the draw is recomputed.", "surefoot replay"
        )
    compared = f"{verified.blocks:,} blocks of the ledger verified, {len(verified.discrepancies):,} discrepancies"
    yield Fact(f"{compared}; no seal was compared. Seals made: {seals:,}.", "surefoot replay")


def _describe_tables(trial: Trial) -> Facts:
    with trial.database.snapshot(unlimited=True) as connection:
        return {
            "sources": list(_count_sources(connection)),
            "updates": list(_count_updates(connection)),
            "fit": list(_count_used(connection)),
            "policy_versions": list(_count_versions(trial, connection)),
            "staff": list(_count_staff_actions(connection)),
            "changes": list(_list_study_files(trial, connection)),
            "period": list(_find_period(trial, connection)),
        }


def _count_sources(connection: sa.Connection) -> Iterator[Fact]:
    counted = sa.select(decisions.c.source, decisions.c.fallback_reasons, sa.func.count().label("number"))
    rows = connection.execute(counted.group_by(decisions.c.source, decisions.c.fallback_reasons)).all()
    sources: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sources[row.source] += row.number
        for reason in {text.split(": ")[0] for text in json.loads(row.fallback_reasons)}:
            reasons[row.source, reason] += row.number
    total = sources.total()
    for source in SOURCES if total else ():
        share = format_percent(sources[source] / total)
        yield Fact(f"{source}: {sources[source]:,} of {total:,} decision points ({share}).", "table decisions")
    for (source, reason), count in sorted(reasons.items()):
        yield Fact(f"{source}, reason {reason}: {count:,} decision points.", "table decisions")


def _count_updates(connection: sa.Connection) -> Iterator[Fact]:
    rows = connection.execute(sa.select(updates.c.state, updates.c.findings).order_by(updates.c.id)).all()
    if not rows:
        yield Fact("No update ran.", "table updates")
    for state, count in Counter(row.state for row in rows).items():
        yield Fact(f"Updates that ended as {state}: {count:,}.", "table updates")
    checks = Counter(finding["check"] for row in rows for finding in json.loads(row.findings) if not finding["passed"])
    for check, count in checks.items():
        yield Fact(f"Updates that did not pass the check '{check}': {count:,}.", "table updates")


def _count_used(connection: sa.Connection) -> Iterator[Fact]:
    listed = map(json.loads, connection.scalars(sa.select(updates.c.result).order_by(updates.c.id)))
    results = [result for result in listed if result.get("used")]
    if not results:
        yield Fact("No update fitted a policy.", "table updates")
    else:
        used = _describe_ends([result["used"] for result in results])
        removed = _describe_ends([result["removed"] for result in results])
        yield Fact(f"Fits used {used} decision points, of which {removed} were removed as outliers.", "table updates")


def _describe_ends(numbers: list[int]) -> str:
    return f"{min(numbers):,} to {max(numbers):,}" if min(numbers) < max(numbers) else f"{numbers[0]:,}"


def _count_versions(trial: Trial, connection: sa.Connection) -> Iterator[Fact]:
    versions = connection.scalar(sa.select(sa.func.count()).select_from(policies))
    events = connection.execute(sa.select(activations).order_by(activations.c.id)).all()
    yield Fact(f"Policy versions learned or loaded: {versions:,}.", "table policies")
    if not events:
        yield Fact("No policy version went live.", "table activations")
        return
    first, last = (event.activated_at.astimezone(trial.settings.zone) for event in (events[0], events[-1]))
    moments = f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({trial.settings.time_zone})"
    yield Fact(
        f"Activations: {len(events):,}, {moments}; the last is of policy {events[-1].policy_id}.", "table activations"
    )


def _count_staff_actions(connection: sa.Connection) -> Iterator[Fact]:
    counted = sa.select(staff_actions.c.action, sa.func.count().label("number")).group_by(staff_actions.c.action)
    rows = connection.execute(counted.order_by(staff_actions.c.action)).all()
    for row in rows:
        yield Fact(f"{row.action}: {row.number:,}.", "table staff_actions")
    if not rows:
        yield Fact("No staff action is on record.", "table staff_actions")


def _list_study_files(trial: Trial, connection: sa.Connection) -> Iterator[Fact]:
    counted = sa.select(decisions.c.study_id, sa.func.count().label("number")).group_by(decisions.c.study_id)
    made = {row.study_id: row.number for row in connection.execute(counted)}
    served = connection.execute(sa.select(studies.c.id, studies.c.first_used).order_by(studies.c.first_used)).all()
    for row in served:
        if row.id in made:
            day = row.first_used.astimezone(trial.settings.zone)
            statement = f"Study file with SHA-256 {row.id}, first used {day:%Y-%m-%d}: {made[row.id]:,} decision points."
            yield Fact(statement, "tables studies and decisions")
    if len(made) == 1:
        yield Fact("The study file was the same throughout.", "tables studies and decisions")
    if made and trial.study_id not in made:
        yield Fact("No decision was made under the study file of this appendix.", "tables studies and decisions")


def _find_period(trial: Trial, connection: sa.Connection) -> Iterator[Fact]:
    ends = sa.select(sa.func.min(decisions.c.decided_at), sa.func.max(decisions.c.decided_at))
    first, last = connection.execute(ends).one()
    if first is not None:
        days = [moment.astimezone(trial.settings.zone) for moment in (first, last)]
        zone = trial.settings.time_zone
        yield Fact(f"Decision points from {days[0]:%Y-%m-%d} to {days[1]:%Y-%m-%d} ({zone}).", "table decisions")
    registered = participants.c.registered_at
    first, last = connection.execute(sa.select(sa.func.min(registered), sa.func.max(registered))).one()
    if first is not None:
        days = [moment.astimezone(trial.settings.zone) for moment in (first, last)]
        registrations = f"Participants were registered from {days[0]:%Y-%m-%d} to {days[1]:%Y-%m-%d}"
        yield Fact(f"{registrations} ({trial.settings.time_zone}).", "table participants")
