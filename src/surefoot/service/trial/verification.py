"""Verification: every draw recomputed, every row compared with the ledger, and the ledger with seals kept outside.

A seal is the ledger's last hash, kept where whoever can change the database cannot reach it.
"""

import errno
import json
import os
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import sqlalchemy as sa
from pydantic import AwareDatetime, TypeAdapter

from surefoot.errors import InputError
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import BEGINNING, EVIDENCE, chain, digest_block, parse_entries, read_positions
from surefoot.service.database.schema import (
    ERASABLE,
    LISTS,
    SIGNED_OUT,
    STEADY,
    activations,
    adverse_events,
    decisions,
    ended_sessions,
    erasures,
    ledger,
    make_reply,
    outcomes,
    participant_events,
    staff_actions,
    updates,
)
from surefoot.service.database.schema_objects import find_schema_differences
from surefoot.service.outside import OutsideError, send_request
from surefoot.service.trial.decisions import Standing, choose_by_standing, was_sent_available
from surefoot.service.trial.participants import PAUSED, STATUSES
from surefoot.service.trial.states import Observation, context_to_state, derive_now
from surefoot.service.trial.trial import PolicyVersions, Trial, load_stored_study, read_draw_secret
from surefoot.service.trial.upkeep import SEALED
from surefoot.study import Study
from surefoot.trial_rules.choices import Choice, Clocks
from surefoot.trial_rules.randomisation import draw_action, draw_uniform, random_key

TOLERANCE = 1e-12
"""Another processor or library may round the last digit of a policy's probability differently."""
URL_SECONDS = 10
CHUNK = 500
"""Entries that are compared at a time: a trial of any size takes the same memory."""
UNREADABLE = (LookupError, ValueError, TypeError, AttributeError)
"""What reading a row raises in which somebody wrote anything at all."""
CLOCK_TOLERANCE = timedelta(minutes=10)
"""A row that was recorded after a seal may be dated this long before it: clocks are set."""


@dataclass(frozen=True)
class Difference:
    """One decision that does not come out as it was recorded."""

    decision_id: str
    participant_id: str
    decision_idx: int
    check: str


@dataclass(frozen=True)
class Replay:
    """How many decisions were recomputed, and which differ."""

    decisions: int
    differences: list[Difference]
    erased: int
    """Decisions whose state was erased: the draw is recomputed, what a policy made of the state cannot be."""


def replay(database: Database) -> Replay:
    """All decisions; the recorded probabilities decide the action, the recomputed ones must agree with them."""
    recomputer = _Recomputer(database)
    contents = Counter[str]()
    differences = []
    ordered = sa.select(decisions).order_by(decisions.c.participant_id, decisions.c.decision_idx)
    with (
        database.snapshot(unlimited=True) as connection,
        connection.execution_options(yield_per=1000).execute(ordered) as rows,
    ):
        for row in rows.mappings():
            contents["erased" if row["salt"] is None else "there"] += 1
            point = (row["id"], row["participant_id"], row["decision_idx"])
            differences += [Difference(*point, check) for check in recomputer.find_differences(row)]
    return Replay(contents.total(), differences, contents["erased"])


class _History:
    """What the transaction of each decision could know, by the order of the ledger: whatever the clocks said, and whatever
    stood in the tables for a while."""

    def __init__(self, database: Database) -> None:
        statuses = sa.select(participant_events).where(participant_events.c.kind.in_(STATUSES))
        self._events: dict[str | None, list[tuple[float, str]]] = defaultdict(list)
        with database.snapshot(unlimited=True) as connection:
            kinds = ("decision", "outcome", "participant event", "activation")
            self.positions = read_positions(connection, *kinds)
            for event in connection.execute(statuses.order_by(participant_events.c.id)):
                position = self.positions["participant event", event.id]
                self._events[event.participant_id].append((position, event.kind))
            self._activations = [
                (self.positions["activation", row.id], (row.policy_id, row.activated_at))
                for row in connection.execute(sa.select(activations).order_by(activations.c.id))
            ]

    def find_live(self, decision_id: str) -> tuple[int, datetime] | None:
        """The policy that was live, and when it was activated."""
        live: tuple[int, datetime] | None = _find_last(self._activations, self.positions["decision", decision_id])
        return live

    def find_pause(self, decision_id: str, participant_id: str) -> str | None:
        """Who was paused: the study or the participant."""
        decided = self.positions["decision", decision_id]
        for subject, words in ((None, "the study"), (participant_id, "the participant")):
            if _find_last(self._events[subject], decided) == PAUSED:
                return words
        return None


def _find_last(entries: Sequence[tuple[float, Any]], position: float) -> Any:
    """The last of what stands before a position; None where nothing does."""
    return next((value for entered, value in reversed(entries) if entered < position), None)


class _Recomputer:
    """Recomputes decisions from the study, the policy and the secret that they were made with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret = b""
        with suppress(*UNREADABLE):  # without it no draw can be recomputed, and the ledger names what is gone
            self._secret = read_draw_secret(database)
        self._policies = PolicyVersions(database)
        self._load_trial = cache(self._make_trial)
        self._history = _History(database)
        self._participant = ""
        self._latest: Clocks | None = None
        self._prompts: list[Clocks] = []
        with database.autocommit() as connection:
            emptied = sa.select(decisions.c.participant_id).where(decisions.c.salt.is_(None)).distinct()
            self._without_past = set(connection.scalars(emptied))

    def _make_trial(self, study_id: str) -> Trial:
        return Trial(self._database, load_stored_study(self._database, study_id), study_id, self._secret, self._policies)

    def find_differences(self, row: Any) -> Iterator[str]:
        """Names of the checks that fail; a participant's decisions come in their order."""
        if row["participant_id"] != self._participant:
            self._participant = row["participant_id"]
            self._latest = None
            self._prompts = []
        yield from self._check(row)
        moment = Clocks(row["decided_at"], row["received_at"])
        if self._latest is None or moment.client > self._latest.client:
            self._latest = moment
        if row["action"] != 0:
            self._prompts.append(moment)

    def _check(self, row: Any) -> Iterator[str]:
        try:
            trial = self._load_trial(row["study_id"])
            recorded = json.loads(row["probabilities"])
        except UNREADABLE:
            yield "record of study or probabilities"
            return
        study = trial.study
        erased = row["salt"] is None
        # The state, or the past that it is derived from, was erased.
        no_state = erased or bool(study.derived_states and row["participant_id"] in self._without_past)
        no_policy_input = erased and row["source"] == "policy"
        key = random_key(row["participant_id"], row["decision_idx"])
        observe = cache(lambda: self._observe(study, row))
        choose = cache(lambda: self._choose(trial, row, None if no_state else observe()))
        checks: dict[str, Callable[[], bool]] = {
            "random key": lambda: key == row["random_key"],
            "uniform number": lambda: draw_uniform(self._secret, key) == row["uniform"],
            "action": lambda: draw_action(row["uniform"], recorded) == row["action"],
            "probability of the action": lambda: recorded[row["action"]] == row["probability"],
            "state": lambda: no_state or _are_close(observe().state, json.loads(row["state"])),
            "source": lambda: (choose().source, choose().policy_id) == (row["source"], row["policy_id"]),
            "probabilities": lambda: no_policy_input or _are_close(choose().probabilities, recorded),
            "limits": lambda: row["source"] == "unavailable" or _respects_limits(study, recorded),
            "reply": lambda: json.loads(self._recompute_reply(study, row)) == json.loads(row["reply"]),
        }
        for name, holds in checks.items():
            try:
                if not holds():
                    yield name
            except UNREADABLE:
                yield f"{name} cannot be recomputed"

    def _observe(self, study: Study, row: Any) -> Observation:
        derived: dict[str, float] = {}
        if study.derived_states:
            # What the decision's transaction saw is what stands before it in the ledger.
            positions = self._history.positions
            decided = positions["decision", row["id"]]
            point = (row["participant_id"], row["decision_idx"], row["decided_at"])
            with self._database.autocommit() as connection:
                derived = derive_now(study, connection, *point, is_known=lambda key: positions["outcome", key] < decided)
        return context_to_state(study, json.loads(row["context"]), derived)

    def _choose(self, trial: Trial, row: Any, observation: Observation | None) -> Choice:
        """Again as the decision did, from the state that it recorded."""
        state = json.loads(row["state"]) or [0.0] * len(trial.study.state_names)
        # Why no policy decided is not known without the state, so the record is believed.
        recorded = json.loads(row["fallback_reasons"]) if row["source"] == "fallback" else []
        reasons = recorded if observation is None else observation.reasons
        pause = self._history.find_pause(row["id"], row["participant_id"])
        return choose_by_standing(
            trial,
            row["participant_id"],
            Clocks(row["decided_at"], row["received_at"]),
            was_sent_available(row),
            Observation(state, reasons),
            standing=Standing(pause, latest=self._latest, prompts=self._prompts),
            live=trial.read_live(self._history.find_live(row["id"])),
        )

    def _recompute_reply(self, study: Study, row: Any) -> str:
        values = {**row, **{name: json.loads(row[name]) for name in LISTS}}
        # The form of the text and the warnings may change from release to release: the ledger accounts for both.
        return make_reply(values, study.actions.names[row["action"]], json.loads(row["reply"])["warnings"])


def _are_close(left: Sequence[float | None], right: Sequence[float | None]) -> bool:
    """Whether two lists of numbers, None where missing, are the same but for rounding."""
    first, second = (np.array(values, dtype=np.float64) for values in (left, right))
    return first.shape == second.shape and np.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def _respects_limits(study: Study, probabilities: Sequence[float]) -> bool:
    limits = study.probability_limits
    within = limits.minimum - TOLERANCE <= 1 - probabilities[0] <= limits.maximum + TOLERANCE
    return within and abs(sum(probabilities) - 1) < 1e-9


@dataclass(frozen=True)
class Seal:
    """The state of the ledger at one moment."""

    sealed_at: AwareDatetime
    position: int
    hash: str
    study: str
    """SHA-256 of the study's text."""
    counts: dict[str, int]
    """Rows of each kind."""
    format: Literal["surefoot-seal-1"] = "surefoot-seal-1"

    @property
    def words(self) -> str:
        return f"{self.sealed_at:%Y-%m-%d %H:%M} UTC"

    def to_line(self) -> str:
        return SEALS.dump_json(self).decode() + "\n"


SEALS = TypeAdapter(Seal)


def make_seal(database: Database) -> Seal:
    """The seal of what is there now."""
    with database.snapshot(unlimited=True) as connection:
        last = connection.execute(sa.select(ledger).order_by(ledger.c.position.desc()).limit(1)).first()
        if last is None:
            raise InputError("there is nothing to seal yet: the trial has not begun")
        # By the order of the ledger: a clock may have been wrong.
        texts = sa.select(ledger.c.entries).where(ledger.c.entries.contains('["study",', autoescape=True))
        entries = parse_entries(connection.scalar(texts.order_by(ledger.c.position.desc()).limit(1)))
        study = next((key[0] for kind, key, *_ in reversed(entries) if kind == "study"), "")
        counts = {kind: _count(connection, evidence.select()) for kind, evidence in EVIDENCE.items()}
    return Seal(now(), last.position, bytes(last.hash).hex(), str(study), counts)


def read_seals(path: Path) -> list[Seal]:
    """The seals of a file, one JSON object a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as seals ({type(error).__name__})") from error
    seals = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                seals.append(SEALS.validate_json(line))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: not a seal; surefoot seal writes them") from error
    if not seals:
        raise InputError(f"{path}: holds no seal")
    return seals


def find_broken(database: Database, seals: Sequence[Seal]) -> list[Seal]:
    """Earlier seals that the ledger no longer fits: something before them was rewritten or removed."""
    wanted = sa.select(ledger.c.position, ledger.c.hash).where(ledger.c.position.in_({seal.position for seal in seals}))
    with database.autocommit() as connection:
        hashes = {row.position: bytes(row.hash).hex() for row in connection.execute(wanted)}
    return [seal for seal in seals if hashes.get(seal.position) != seal.hash]


def append_seal(seal: Seal, path: Path) -> None:
    """Add a line to a file, on the disk when this returns; nothing in the file is ever changed, and no half line is left."""
    line = seal.to_line().encode()
    try:
        with path.open("ab", buffering=0) as file:
            length = file.tell()
            if file.write(line) != len(line):
                file.truncate(length)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def send_seal(seal: Seal, url: str) -> None:
    """POST a seal as JSON; anything but a 2xx is an error."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, seal.to_line().encode(), headers, method="POST")  # noqa: S310 - see the caller
    try:
        send_request(request, URL_SECONDS)
    except OutsideError as error:
        host = urlsplit(url).hostname  # the rest of a URL may hold a secret
        raise InputError(f"the seal could not be sent: {host} {error}; nothing outside has it yet") from error


@dataclass(frozen=True)
class Discrepancy:
    """Something that is not as it was recorded."""

    subject: str
    problem: str
    kind: str = ""
    """Of evidence, where it is a row or an entry of the ledger."""
    key: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Verification:
    """What was compared, and what does not fit."""

    blocks: int
    entries: Counter[str]
    """By kind."""
    erased: dict[str, int]
    """Decisions and outcomes whose content was erased, accountably."""
    discrepancies: list[Discrepancy]


def verify(database: Database, seals: Sequence[Seal] = ()) -> Verification:
    """Compare everything, as it is at one moment."""
    with database.snapshot(unlimited=True) as connection:
        verifier = _Verifier(connection, seals)
        verifier.find_altered_rows()
        verifier.check_slots()
        verifier.find_reopened_sessions()
        verifier.find_missing_seals(seals)
        verifier.discrepancies += [Discrepancy(*difference) for difference in find_schema_differences(connection)]
        erased = {table.name: _count(connection, sa.select(table.c.id).where(table.c.salt.is_(None))) for table in ERASABLE}
    return Verification(verifier.position, verifier.entries, erased, verifier.discrepancies)


def find_altered_rows(connection: sa.Connection) -> list[Discrepancy]:
    """The rows that are not as the ledger has them, for who reads them in the same snapshot."""
    verifier = _Verifier(connection, ())
    verifier.find_altered_rows()
    return verifier.discrepancies


def _count(connection: sa.Connection, query: sa.Select[Any]) -> int:
    return int(connection.scalar(sa.select(sa.func.count()).select_from(query.subquery())) or 0)


class _Verifier:
    """Goes along the chain from its beginning, and collects what does not fit."""

    def __init__(self, connection: sa.Connection, seals: Sequence[Seal]) -> None:
        self._connection = connection
        self._seals: dict[int, list[Seal]] = defaultdict(list)
        for seal in seals:
            self._seals[seal.position].append(seal)
        self._last_seal = max(seals, key=lambda seal: seal.position, default=None)
        self._pending: dict[str, list[tuple[list[Any], bool]]] = defaultdict(list)
        self._newest: dict[str, dict[Any, tuple[list[Any], bool]]] = defaultdict(dict)
        """Of kinds that repeat, the last entry of every row."""
        self._study = ""
        """The study that was recorded last."""
        self._restored: list[int] = []
        """Positions of restores that are on record."""
        self._back_dated: list[Discrepancy] = []
        """Rows recorded after the last seal and dated before it."""
        self._clock_was_set = False
        """Whether the service noticed, after the last seal, that its clock was set."""
        self.position = 0
        self.entries = Counter[str]()
        self.discrepancies: list[Discrepancy] = []

    def _stream(self, query: sa.Select[Any]) -> sa.CursorResult[Any]:
        return self._connection.execute(query, execution_options={"yield_per": CHUNK})

    def _report(self, subject: str, problem: str) -> None:
        self.discrepancies.append(Discrepancy(subject, problem))

    def _report_row(self, kind: str, key: Sequence[Any], problem: str) -> None:
        self.discrepancies.append(Discrepancy(EVIDENCE[kind].describe(list(key)), problem, kind, tuple(key)))

    def find_altered_rows(self) -> None:
        """Walk along the chain, and compare every row with it."""
        self.walk_chain()
        self.find_unrecorded()
        self.find_unaccounted_erasures()
        self.find_returned_content()

    def walk_chain(self) -> None:
        """Compare each block with the one before it and with seals, and each entry with its row."""
        hash_before = BEGINNING
        with self._stream(sa.select(ledger).order_by(ledger.c.position)) as blocks:
            for block in blocks:
                subject = f"ledger block {block.position}"
                if block.position != self.position + 1:
                    self._report(subject, f"follows block {self.position}: blocks between them were removed")
                elif block.hash != chain(hash_before, digest_block(block.recorded_at, block.entries)):
                    self._report(subject, "was changed: its hash does not follow from what it holds and the hash before")
                after_seals = self._last_seal is not None and block.position > self._last_seal.position
                if after_seals:
                    self._check_date(subject, block.recorded_at)
                hash_before = block.hash if isinstance(block.hash, bytes) else BEGINNING
                self.position = block.position
                for kind, *entry in parse_entries(block.entries):
                    self._take_entry(kind, entry, after_seals)
                self._check_seals(block)
        self._compare_last_rows()
        if not self._clock_was_set:
            self.discrepancies += self._back_dated
        for position, seals in self._seals.items():
            if position > self.position:
                words = f"the ledger ends at block {self.position}, the seal was made at block {position}: "
                words += self._explain_restore(position) or "blocks were removed"
                for seal in seals:
                    self._report(f"seal of {seal.words}", words)

    def _compare_last_rows(self) -> None:
        """Compare what was not compared on the way."""
        for kind, entries in self._newest.items():
            self._pending[kind] = [entry for entry in entries.values() if entry[0][1] is not None]
        for kind in list(self._pending):
            self._compare_rows(kind)

    def _take_entry(self, kind: str, entry: list[Any], after_seals: bool) -> None:
        if kind == "staff action" and entry[0][1] == "restored":
            self._restored.append(self.position)
        if kind == "study":
            self._study = entry[0][0]
        self._clock_was_set |= after_seals and kind == "job" and entry[0][0] == STEADY
        if kind in EVIDENCE and EVIDENCE[kind].repeats:
            self._newest[kind][entry[0][0]] = (entry, after_seals)
            self.entries[kind] = sum(newest[1] is not None for newest, _ in self._newest[kind].values())
        elif kind in EVIDENCE:
            self.entries[kind] += 1
            self._pending[kind].append((entry, after_seals))
            if len(self._pending[kind]) == CHUNK:
                self._compare_rows(kind)

    def _check_date(self, subject: str, moment: datetime | None) -> None:
        seal = self._last_seal
        if seal is not None and moment is not None and moment < seal.sealed_at - CLOCK_TOLERANCE:
            words = f"is dated {moment:%Y-%m-%d %H:%M} UTC but was recorded after the seal of {seal.words}"
            self._back_dated.append(Discrepancy(subject, words))

    def _check_seals(self, block: Any) -> None:
        for seal in self._seals.get(block.position, ()):
            if not isinstance(block.hash, bytes) or block.hash.hex() != seal.hash:
                words = f"is not what the seal of {seal.words} holds"
                why = self._explain_restore(block.position)
                self._report(f"ledger block {block.position}", f"{words}: {why}" if why else words)
            if seal.study != self._study:
                self._report(f"seal of {seal.words}", f"names the study {seal.study[:12]}, the ledger {self._study[:12]}")
            for kind, number in seal.counts.items():
                if self.entries[kind] != number:
                    words = f"counted {number} of the kind '{kind}', the ledger has {self.entries[kind]}"
                    self._report(f"seal of {seal.words}", words)

    def _explain_restore(self, position: int) -> str:
        """Why a seal does not fit after an honest restore from a backup that is older than the seal."""
        for block in self._restored:
            if block <= position:
                return f"the trial was restored at block {block} from an older backup, and what followed that backup is lost"
        return ""

    def _compare_rows(self, kind: str) -> None:
        """Compare the entries of one kind with their rows."""
        evidence = EVIDENCE[kind]
        pending = self._pending.pop(kind)
        key_column = evidence.table.c[evidence.key[0]]
        chosen = evidence.select().where(key_column.in_([entry[0][0] for entry, _ in pending]))
        rows = {row[evidence.key[0]]: row for row in self._connection.execute(chosen).mappings()}
        names = ", ".join(evidence.content)
        for (key, digest, *content_digest), after_seals in pending:
            row = rows.get(key[0])
            if row is None:
                self._report_row(kind, key, "was recorded and is no longer there")
                continue
            try:
                if evidence.identify(row) != key or evidence.digest(row) != digest:
                    self._report_row(kind, key, "was changed since it was recorded")
                if evidence.content and row["salt"] is None:
                    if any(row[name] != blank for name, blank in evidence.blanks(key[0]).items()):
                        self._report_row(kind, key, f"was erased, but holds something else than nothing ({names})")
                elif evidence.content and [evidence.digest_content(row)] != content_digest:
                    self._report_row(kind, key, f"was changed since it was recorded ({names})")
            except UNREADABLE:
                self._report_row(kind, key, "was changed since it was recorded, and cannot be read")
            if after_seals:
                self._check_date(evidence.describe(key), row.get(evidence.moment))

    def find_unrecorded(self) -> None:
        """Find rows that the ledger does not know; named one by one only where the numbers say that there are any."""
        for kind, evidence in EVIDENCE.items():
            if _count(self._connection, evidence.select()) == self.entries[kind]:
                continue
            known = Counter[Any](key for key, (entry, _) in self._newest[kind].items() if entry[1] is not None)
            if not evidence.repeats:
                with self._stream(sa.select(ledger.c.entries)) as blocks:
                    known.update(
                        entry[1][0] for text in blocks.scalars() for entry in parse_entries(text) if entry[0] == kind
                    )
            key_column = evidence.table.c[evidence.key[0]]
            for row in self._connection.execute(evidence.select().order_by(key_column)).mappings():
                if not known[row[evidence.key[0]]]:
                    self._report_row(kind, evidence.identify(row), "was inserted: the ledger does not know it")
            for key, number in known.items():
                if number > 1:
                    self._report(f"{kind} {key}", "was recorded twice")

    def find_unaccounted_erasures(self) -> None:
        """Find content that is gone without an erasure on record."""
        allowed = sa.exists().where(
            sa.or_(erasures.c.participant_id.is_(None), erasures.c.participant_id == decisions.c.participant_id),
            # Not by the time of the erasure: a decision may have been dated by a clock that was ahead.
            sa.or_(erasures.c.received_before.is_(None), decisions.c.received_at < erasures.c.received_before),
        )
        queries = {
            "decision": sa.select(decisions.c.id).where(decisions.c.salt.is_(None), ~allowed),
            "outcome": sa.select(outcomes.c.id).join_from(outcomes, decisions).where(outcomes.c.salt.is_(None), ~allowed),
        }
        requested = sa.exists().where(
            erasures.c.participant_id == adverse_events.c.participant_id,
            erasures.c.received_before.is_(None),
            adverse_events.c.recorded_at <= erasures.c.erased_at,
        )
        queries["adverse event"] = sa.select(adverse_events.c.id).where(adverse_events.c.salt.is_(None), ~requested)
        for kind, query in queries.items():
            for key in self._connection.scalars(query):
                self._report(f"{kind} {key}", "was emptied without an erasure on record")

    def find_returned_content(self) -> None:
        """Find content that an erasure took and that is there again, with its salt: its digest would fit."""
        tables = {"decision": decisions, "outcome": outcomes, "adverse event": adverse_events}
        for erasure in self._connection.execute(sa.select(erasures)).all():
            conditions = [] if erasure.participant_id is None else [decisions.c.participant_id == erasure.participant_id]
            if erasure.received_before is not None:
                conditions.append(decisions.c.received_at < erasure.received_before)
            points = sa.select(decisions.c.id).where(*conditions)
            chosen = {"decision": decisions.c.id.in_(points), "outcome": outcomes.c.decision_id.in_(points)}
            if erasure.participant_id is not None and erasure.received_before is None:
                chosen["adverse event"] = adverse_events.c.participant_id == erasure.participant_id
            for kind, condition in chosen.items():
                table = tables[kind]
                for key in self._connection.scalars(sa.select(table.c.id).where(table.c.salt.is_not(None), condition)):
                    # What was recorded after the erasure was not erased by it.
                    if self._positions[kind, key] < self._positions["erasure", erasure.id]:
                        self._report(f"{kind} {key}", "was erased, and holds content again")

    @cached_property
    def _positions(self) -> dict[tuple[str, Any], float]:
        return read_positions(self._connection, "decision", "outcome", "adverse event", "erasure")

    def check_slots(self) -> None:
        """The slot of updates is taken while one runs, and only then."""
        running = updates.c.finished_at.is_(None)
        is_wrong = sa.or_(
            sa.and_(running, updates.c.slot.is_distinct_from(1)), sa.and_(~running, updates.c.slot.is_not(None))
        )
        for update_id in self._connection.scalars(sa.select(updates.c.id).where(is_wrong)):
            self._report(f"update {update_id}", "takes the slot of updates, or left it, otherwise than its end says")

    def find_reopened_sessions(self) -> None:
        """A session that was signed out stays on the list of ended ones: without it an old cookie would be good again."""
        if not sa.inspect(self._connection).has_table(ended_sessions.name):
            return  # the comparison of the schema names it
        ended = {bytes(digest).hex() for digest in self._connection.scalars(sa.select(ended_sessions.c.digest))}
        actions = sa.select(staff_actions).where(staff_actions.c.action == SIGNED_OUT, staff_actions.c.subject != "")
        for action in self._connection.execute(actions):
            if action.subject not in ended:
                self._report(f"session that was signed out by staff action {action.id}", "is no longer ended")

    def find_missing_seals(self, seals: Sequence[Seal]) -> None:
        """A file of seals has every seal that the ledger says was put there."""
        given = {f"block {seal.position:,}" for seal in seals}
        made = defaultdict(list)
        for action in self._connection.execute(sa.select(staff_actions).where(staff_actions.c.action == SEALED)):
            made[action.subject].append(action)
        for subject, actions in made.items():
            if any(action.detail in given for action in actions):
                for action in actions:
                    if action.detail not in given:
                        words = f"seal of {action.done_at:%Y-%m-%d %H:%M} UTC ({action.detail})"
                        self._report(words, f"was put into {subject}, and is not among the seals")
