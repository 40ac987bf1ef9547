"""Facts from files: the study file, the logs, the manifest of a fit, and the analysis in `[effects]`."""

import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.checklists.checklist import Fact, Facts, merge_facts
from surefoot.data.log_columns import Problems
from surefoot.data.log_table import list_files
from surefoot.effects.contrasts import EffectRow
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.missing_outcomes import MISSING_METHODS
from surefoot.effects.report import EffectsReport
from surefoot.effects.study_effects import analyse_study, read_section
from surefoot.errors import InputError
from surefoot.fitting import FittedStudy
from surefoot.fitting.parts import summarise_part
from surefoot.log_checks import Check, check_logs
from surefoot.log_checks.probabilities import check_balance, check_mean_weights
from surefoot.reports.numbers import describe_p, format_estimate, format_number, format_percent
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import read_further_columns
from surefoot.study.toml_file import Section
from surefoot.study.trial_updates import has_trial_updates, name_beside, name_column, read_beside
from surefoot.version import __version__

SETTLED = {
    "fixed": "the rule for the probabilities stayed the same during the study",
    "own": "the policy of each participant learned from the data of that participant",
    "pooled": "policies learned from the data of several participants during the study",
}
"""`[collection] policy` in words."""
DRAW_CHECKS = (check_mean_weights, check_balance)


def _collect(source: Any, collectors: dict[str, Callable[[Any], Iterator[Fact]]]) -> Facts:
    return {topic: list(collector(source)) for topic, collector in collectors.items()}


def describe_settings(section: Section, *, without: Collection[str] = ()) -> Iterator[str]:
    """The keys of a section that were written into the study file, or differ from their defaults."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        default = field.get_default(call_default_factory=True)
        if name not in without and (name in section.model_fields_set or value != default):
            yield f"{name} = {_spell(value)}"


def _spell(value: Any) -> str:
    plain = value.model_dump() if isinstance(value, Section) else value
    return json.dumps(plain, ensure_ascii=False, default=str)


# The study file.


@dataclass(frozen=True)
class StudyFile:
    """A study and the name of its file."""

    study: Study
    name: str

    def cite(self, section: str = "") -> str:
        return f"{self.name} [{section}]" if section else self.name


def collect_study_facts(study: Study, name: str = "study.toml") -> Facts:
    """What the study file says, by topic."""
    return _collect(StudyFile(study, name), STUDY_TOPICS)


def _describe_title(file: StudyFile) -> Iterator[Fact]:
    trial = file.study.trial
    if trial is not None and "title" in trial.model_fields_set:
        yield Fact(trial.title, file.cite("trial"))


def _describe_method(file: StudyFile) -> Iterator[Fact]:
    method = file.study.method()
    chosen = () if method.choice is None else method.choice.default
    parts = ", ".join(
        f"{slot} {'chosen from the logs' if slot in chosen else part.name}" for slot, part in method.parts.items()
    )
    yield Fact(f"Bandit method {file.study.method_name} of Surefoot: {parts}.", file.cite("method"))
    settings = {name: value for name, value in method.list_settings().items() if name not in (*method.parts, *VARIABLES)}
    listed = ", ".join(f"{name} {_spell(value)}" for name, value in settings.items() if value is not None)
    yield Fact(f"Parameters, with defaults: {listed}.", file.cite("method"))


VARIABLES = ("critic_variables", "policy_variables")
"""Parameters of a method that repeat the input variables."""


def _describe_actions(file: StudyFile) -> Iterator[Fact]:
    nothing, *options = file.study.actions.names
    yield Fact(f"Options: {', '.join(options)}; or '{nothing}', which sends nothing.", file.cite("actions"))


def _describe_outcome(file: StudyFile) -> Iterator[Fact]:
    outcome = file.study.outcome
    effects = read_section(file.study)
    words = effects.outcome_words
    meaning = f" ({words})" if words and effects.outcome in (None, outcome.column) else ""
    yield Fact(f"Column {outcome.column}{meaning}.", file.cite("outcome"))
    for setting in describe_settings(outcome, without=("column",)):
        yield Fact(setting, file.cite("outcome"))


def _describe_distal(file: StudyFile) -> Iterator[Fact]:
    effects = read_section(file.study)
    if ESTIMATORS[effects.estimator].distal:
        yield Fact(f"{effects.outcome_words or effects.outcome or file.study.outcome.column}.", file.cite("effects"))
    if effects.distal is not None:
        yield Fact(f"Column {effects.distal}, one value for each participant, analysed by DCEE.", file.cite("effects"))


def _describe_inputs(file: StudyFile) -> Iterator[Fact]:
    for name, variable in file.study.state.items():
        settings = "; ".join(describe_settings(variable, without=("column", "kind", "use")))
        origin = "computed from the past" if variable.derived else f"column {variable.column or name}"
        used_by = "critic and policy" if variable.use == "both" else variable.use
        statement = f"{name}: {variable.kind}, {origin}, used by {used_by}" + (f"; {settings}" if settings else "")
        yield Fact(f"{statement}.", file.cite(f"state.{name}"))


def _describe_screen(file: StudyFile) -> Iterator[Fact]:
    study = file.study
    yield Fact("A value outside its range counts as missing; an empty cell, NA, NaN or null is missing.", file.cite())
    yield Fact("Decision points with a missing state or outcome are left out of fits.", "surefoot fit")
    if study.screen is None or not study.screen.on:
        yield Fact("Analyses do not screen the logs for values that cannot be trusted.", file.cite())
    else:
        screened = "become missing" if study.screen.outcome else "are reported, and stay"
        yield Fact(f"Logs are screened. Flagged outcomes {screened}.", file.cite("screen"))
        for detector in study.screen.detectors():
            yield Fact(f"Detector {detector.name}: {detector.describe()}", file.cite(f"screen.{detector.name}"))
    if study.trial is not None:
        yield Fact("Every update of the service screens the logs before it fits.", "surefoot serve")
        decided = f"decides with the fallback probability {study.trial.fallback_probability:g}"
        yield Fact(f"Where an input is missing or implausible, the service {decided}.", file.cite("trial"))


def _describe_rule(file: StudyFile) -> Iterator[Fact]:
    study = file.study
    limits = study.probability_limits
    yield Fact("The output is a probability of each action at an available decision point.", "surefoot explain")
    yield Fact(
        f"Decision rule {study.method().rule.name} on {', '.join(study.method().policy_variables or study.state_names)}.",
        file.cite("method"),
    )
    bounds = f"from {limits.minimum:g} to {limits.maximum:g}"
    yield Fact(f"A policy in use sends anything with a probability {bounds}.", file.cite("probability_limits"))


def _describe_service_rules(file: StudyFile) -> Iterator[Fact]:
    trial = file.study.trial
    if trial is None:
        return
    people = "the study" if file.study.method().pooling.needs_everybody else "a participant"
    warm_up = f"Until {people} has {trial.warm_up_decision_points:,} complete decision points"
    yield Fact(f"{warm_up}, anything is sent with probability {trial.warm_up_probability:g}.", file.cite("trial"))
    yield Fact(
        f"Where no policy can decide, anything is sent with probability {trial.fallback_probability:g}.", file.cite("trial")
    )
    nightly = "no nightly update"
    if trial.update_at is not None:
        nightly = f"an update every night at {trial.update_time} ({trial.time_zone})"
    yield Fact(f"The plan has {nightly}; activation is {trial.activation}.", file.cite("trial"))
    yield Fact(f"An outcome counts for {trial.outcome_hours:g} hours after its decision point.", file.cite("trial"))
    limits = ", ".join(describe_settings(trial.dose)) if trial.dose.is_limited else "no limit of prompts"
    yield Fact(f"Dose: {limits}.", file.cite("trial.dose"))
    yield Fact(f"Conditions for a new policy: {'; '.join(_list_all(trial.guard_rails))}.", file.cite("trial.guard_rails"))


def _list_all(section: Section) -> Iterator[str]:
    for name in type(section).model_fields:
        yield f"{name} = {_spell(getattr(section, name))}"


def _describe_collection(file: StudyFile) -> Iterator[Fact]:
    collection = file.study.collection
    if collection.policy in SETTLED:
        yield Fact(f"The study file says that {SETTLED[collection.policy]}.", file.cite("collection"))
    if collection.updates:
        times = ", ".join(map(str, collection.updates))
        yield Fact(f"Policies changed {len(collection.updates)} times: {times}.", file.cite("collection"))


def _describe_analysis(file: StudyFile) -> Iterator[Fact]:
    effects = file.study.effects
    estimator = ESTIMATORS[effects.estimator]
    outcome = read_section(file.study).outcome or file.study.outcome.column
    if not effects.model_fields_set:
        yield Fact("The study file has no [effects] section: this is the default analysis, not a plan.", file.cite())
    yield Fact(f"Causal excursion effect on {outcome} by {estimator.label} ({estimator.estimand}).", file.cite("effects"))
    for setting in describe_settings(effects):
        yield Fact(setting, file.cite("effects"))
    defined = effects.missing_as
    if defined is None or (isinstance(defined, dict) and outcome not in defined):
        yield Fact(f"Missing outcomes: {MISSING_METHODS[effects.missing].label}.", file.cite("effects"))
    correction = "as published, not corrected" if estimator.distal else "corrected"
    yield Fact(f"95 % intervals by t, with standard errors {correction} for few participants.", "surefoot effects")


def _describe_monitoring(file: StudyFile) -> Iterator[Fact]:
    if file.study.monitoring is not None:
        for setting in describe_settings(file.study.monitoring):
            yield Fact(setting, file.cite("monitoring"))


def _describe_access(file: StudyFile) -> Iterator[Fact]:
    licence = importlib.metadata.metadata("surefoot")["License-Expression"]
    if licence is not None:
        yield Fact(f"Surefoot is open source (licence {licence}).", "metadata of the installed package")
    digest = hashlib.sha256(file.study.text.encode()).hexdigest()
    yield Fact(f"The study file has SHA-256 {digest}.", file.cite())
    yield Fact(f"This appendix was made by Surefoot {__version__}.", "surefoot --version")


def _describe_design(file: StudyFile) -> Iterator[Fact]:
    probabilities = file.study.actions.probabilities
    if probabilities is not None:
        listed = ", ".join(f"{name} {value:g}" for name, value in zip(file.study.actions.names, probabilities, strict=True))
        yield Fact(f"By design: {listed}.", file.cite("actions"))


STUDY_TOPICS: dict[str, Callable[[StudyFile], Iterator[Fact]]] = {
    "title": _describe_title,
    "method": _describe_method,
    "actions": _describe_actions,
    "outcome": _describe_outcome,
    "distal": _describe_distal,
    "inputs": _describe_inputs,
    "screen": _describe_screen,
    "decision_rule": _describe_rule,
    "service_rules": _describe_service_rules,
    "collection": _describe_collection,
    "randomisation": _describe_design,
    "analysis": _describe_analysis,
    "monitoring": _describe_monitoring,
    "access": _describe_access,
}


# Logs.


@dataclass(frozen=True, eq=False)
class NamedLogs:
    """Logs as a study describes them, and where they came from."""

    study: Study
    read: StudyLogs
    name: str


def collect_log_facts(study: Study, read: StudyLogs, name: str) -> Facts:
    """What logs say without looking at outcomes by action; `name` is the file or the tables that hold them."""
    return _collect(NamedLogs(study, read, name), LOG_TOPICS)


def _count_participants(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    with_outcome = np.unique(logs.participant_index[~np.isnan(logs.outcome)])
    yield Fact(f"{len(logs.participants):,} participants have a decision point.", named.name)
    yield Fact(f"{len(with_outcome):,} of them have an outcome.", named.name)


def _count_decision_points(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    lengths = np.diff(logs.starts)
    spread = f"median {format_number(float(np.median(lengths)))}, {lengths.min():,} to {lengths.max():,}"
    yield Fact(f"{len(logs):,} decision points; by participant: {spread}.", named.name)


def _find_period(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    if logs.time.dtype.kind == "M":
        days = logs.time.astype("datetime64[D]")
        yield Fact(f"Decision points from {days.min()} to {days.max()} (times with a zone are in UTC).", named.name)
    else:
        ends = f"{format_number(float(logs.time.min()))} to {format_number(float(logs.time.max()))}"
        yield Fact(f"Column {logs.names.time} runs from {ends}; it holds no dates.", named.name)


def _count_available(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    if named.study.columns.available is None:
        yield Fact("No column says who was available: every decision point counts as available.", named.name)
        return
    share = format_percent(float(logs.available.mean()))
    yield Fact(f"Available at {int(logs.available.sum()):,} of {len(logs):,} decision points ({share}).", named.name)


def _count_actions(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    taken = logs.action[logs.available]
    for code, name in enumerate(logs.action_names):
        count = int((taken == code).sum())
        share = format_percent(count / len(taken)) if len(taken) else "–"
        yield Fact(f"{name}: {count:,} of {len(taken):,} available decision points ({share}).", named.name)
    prompts = np.bincount(logs.participant_index[logs.action > 0], minlength=len(logs.participants))
    spread = f"median {format_number(float(np.median(prompts)))}, {prompts.min():,} to {prompts.max():,}"
    yield Fact(f"Prompts by participant: {spread}.", named.name)


def _count_poor_data(named: NamedLogs) -> Iterator[Fact]:
    counts = summarise_part(named.study, named.read)
    available = counts["available"]
    for column, missing in counts["missing"].items():
        share = format_percent(missing / available) if available else "–"
        yield Fact(f"{column}: missing at {missing:,} of {available:,} available decision points ({share}).", named.name)
    for column, outside in counts["implausible"].items():
        if outside:
            yield Fact(f"{column}: {outside:,} values outside the range, counted as missing.", named.name)
    screen = named.read.screen
    for row in [] if screen is None else screen.list_counts():
        flagged = f"{row['values']:,} of {counts['decision_points']:,} decision points, available or not, flagged"
        statement = f"{row['column']}: {flagged} ({row['reason']}); {row['missing']:,} of these values count as missing."
        yield Fact(statement, f"surefoot screen, from {named.name}")


def _describe_probabilities(named: NamedLogs) -> Iterator[Fact]:
    logs = named.read.logs
    known = logs.available & ~np.isnan(logs.probability)
    absent = int((logs.available & np.isnan(logs.probability)).sum())
    if absent:
        yield Fact(f"The probability is not known at {absent:,} available decision points.", named.name)
    if logs.actions == 2:
        sending = np.where(logs.action > 0, logs.probability, 1 - logs.probability)[known]
        yield from _describe_spread(f"Probability of {logs.action_names[1]}", sending, named.name)
        return
    for code, name in enumerate(logs.action_names):
        taken = logs.probability[known & (logs.action == code)]
        yield from _describe_spread(f"Probability of {name}, where it was drawn", taken, named.name)


def _describe_spread(words: str, values: np.ndarray[Any, np.dtype[np.float64]], source: str) -> Iterator[Fact]:
    if not len(values):
        return
    low, middle, high = (format_number(float(value)) for value in np.quantile(values, (0, 0.5, 1)))
    spread = f"{low} at all" if low == high else f"{low} to {high}, median {middle}, at"
    yield Fact(f"{words}: {spread} {len(values):,} available decision points.", source)


LOG_TOPICS: dict[str, Callable[[NamedLogs], Iterator[Fact]]] = {
    "participants": _count_participants,
    "decision_points": _count_decision_points,
    "period": _find_period,
    "availability": _count_available,
    "delivered": _count_actions,
    "data_quality": _count_poor_data,
    "randomisation": _describe_probabilities,
}


def describe_checks(study: Study, read: StudyLogs, name: str) -> Facts:
    """The checks of logs; some compare outcomes by action."""
    command = f"surefoot effects, from {name}"
    draws = check_logs(read, study, checks=DRAW_CHECKS)
    return {"checks": _list_checks(check_logs(read, study), command), "draw_checks": _list_checks(draws, command)}


def _list_checks(checks: Sequence[Check], source: str) -> list[Fact]:
    return [Fact(f"{check.name} ({check.verdict}): {check.reason}.", source) for check in checks]


# The analysis in `[effects]`.


def collect_effect_facts(study: Study, path: Path, name: str) -> Facts:
    """Primary, secondary and sensitivity analyses; a refusal is a fact as well."""
    command = f"surefoot effects, from {name}"
    try:
        report = analyse_study(study, path)
    except InputError as error:
        return {"effects": [Fact(f"Not estimated: {error}.", command)]}
    primary = next(iter(report.results))
    rows = {
        "effects": [row for row in report.table if row.analysis == primary],
        "secondary": [*(row for row in report.table if row.analysis != primary), *report.distal],
        "sensitivity": [
            *report.sensitivity,
            *report.other_missing,
            *(() if report.missing is None else report.missing.rows),
        ],
    }
    facts = {topic: [Fact(_describe_row(row), command) for row in listed] for topic, listed in rows.items()}
    facts["effects"] += [Fact(sentence, command) for sentence in (*report.sentences[:1], *report.notes)]
    facts["effects"] += [Fact(sentence, command) for sentence in _describe_errors(report)]
    facts["secondary"] += [Fact(f"Does the effect differ {name}: {test}.", command) for name, test in report.joint.items()]
    facts["secondary"] += [Fact(statement, command) for statement in _describe_groups(report)]
    selection = [] if report.selection is None else report.selection.describe()
    facts["secondary"] += [Fact(statement, command) for statement in selection]
    facts["sensitivity"] += [Fact(line, command) for line in ([] if report.screened is None else report.screened.lines())]
    facts["missing_outcomes"] = list(_count_left_out(report, command))
    return facts


def _describe_row(row: EffectRow) -> str:
    adjusted = "" if np.isnan(row.p_holm) else f", adjusted after Holm: {describe_p(row.p_holm)}"
    standardised = "" if np.isnan(row.outcome_sd) else f", in standard deviations {format_estimate(row.standardised)}"
    return f"{row.label}: {format_estimate(row.interval)}, {describe_p(row.p)}{adjusted}{standardised}."


def _describe_groups(report: EffectsReport) -> Iterator[str]:
    """Effects in groups; numbers of a small group may tell who its members are."""
    for group in report.groups:
        if group.is_small:
            yield f"{group.label}: a small group ({group.people} participants), not shown."
        elif group.refusal:
            yield f"{group.label}: not estimated: {group.refusal}."
        else:
            yield from (_describe_row(row) for row in group.effects)


def _describe_errors(report: EffectsReport) -> Iterator[str]:
    yield f"Standard errors: {report.errors}."
    yield from report.error_sentences
    if report.error_warning:
        yield report.error_warning


def _count_left_out(report: EffectsReport, command: str) -> Iterator[Fact]:
    quality = report.quality
    people = f"{quality.people_counted:,} of {quality.people:,} participants"
    yield Fact(f"{quality.counted:,} of {quality.rows:,} decision points count, of {people}.", command)
    for reason, count in quality.reasons.items():
        yield Fact(f"Left out, {reason}: {count:,} decision points.", command)
    for action, rows in quality.missing.rows.items():
        missing = quality.missing.happened[action]
        share = format_percent(missing / rows) if rows else "–"
        yield Fact(f"Outcome missing after {action}: {missing:,} of {rows:,} decision points ({share}).", command)
    analysis = report.main.points.analysis
    if analysis.outcome in analysis.defined_missing:
        value = analysis.defined_missing[analysis.outcome]
        yield Fact(f"The study defines a missing outcome as {value:g} ([effects] missing_as).", command)
    else:
        method = MISSING_METHODS[analysis.missing]
        yield Fact(
            f"Primary analysis of missing outcomes: {method.label}, [effects] missing = '{analysis.missing}'.", command
        )
    if report.missing is not None:
        yield from (Fact(sentence, command) for sentence in report.missing.lines())


# Files together.


def collect_fit_facts(study: Study, folder: Path, inputs: Sequence[dict[str, Any]]) -> Facts:
    """What the manifest of a fit says; a fit of another study or of other logs is refused."""
    manifest = FittedStudy.load(folder).manifest
    source = f"{folder.name}/manifest.json"
    if manifest["study"]["sha256"] != hashlib.sha256(study.text.encode()).hexdigest():
        raise InputError(f"{folder}: was fitted with another study file; give the fit of this one")
    fitted = {file["sha256"] for file in manifest["inputs"]}
    if inputs and fitted != {file["sha256"] for file in inputs}:
        raise InputError(f"{folder}: was fitted to other logs; give the fit of these")
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    names = ", ".join(f"{file['name']} (SHA-256 {file['sha256']})" for file in manifest["inputs"])
    used = f"{manifest['used']:,} of {manifest['available']:,} available decision points"
    removed = f"{manifest['removed']:,} of them were removed as outliers"
    return {
        "version": [
            Fact(f"Fitted with {versions}, to {names}.", source),
            Fact("This policy was learned from these logs, so it did not choose their actions.", source),
        ],
        "fit": [Fact(f"The fit used {used}; {removed}.", source)]
        + [Fact(f"Warning: {warning}.", source) for warning in manifest["warnings"]],
    }


def collect_export_facts(study: Study, path: Path) -> Facts:
    """What an export of the service holds besides the logs: who decided, updates, policy versions and deviations."""
    (decisions,) = list_files(path)
    updates = read_beside(decisions, "updates")
    update_file = f"updates next to {decisions.name}"
    states = Counter(updates["state"].to_pylist())
    refusals = Counter(text for text in updates["refused_by"].to_pylist() if text)
    facts: Facts = {
        "updates": [
            *(Fact(f"Updates that ended as {state}: {count:,}.", update_file) for state, count in states.items()),
            *(Fact(f"Updates refused by {check}: {count:,}.", update_file) for check, count in refusals.items()),
        ]
        or [Fact("No update ran.", update_file)]
    }
    policy_file = name_beside(decisions, "policies", ".json")
    if policy_file.is_file():
        versions = json.loads(policy_file.read_text(encoding="utf-8"))
        moments = sorted(moment for version in versions for moment in version["activated_at"])
        went_live = f"{len(moments):,}, from {moments[0]} to {moments[-1]}" if moments else "none"
        facts["policy_versions"] = [
            Fact(f"Policy versions learned or loaded: {len(versions):,}. Activations: {went_live}.", policy_file.name)
        ]
    with suppress(InputError):  # Simulated trials do not have these columns.
        facts |= _count_export_columns(study, path, decisions.name)
    return facts


def _count_export_columns(study: Study, path: Path, file: str) -> Facts:
    names = [name_column(study, name) for name in ("source", "outcomes_sent", "outcomes_late")]
    rows = read_further_columns(study, path, names)
    problems = Problems(rows.name_row)
    sources, position = rows.column(names[0], problems).distinct()
    counts = dict(zip(sources, np.bincount(position, minlength=len(sources)).tolist(), strict=True))
    sent, late = (rows.column(name, problems).numbers() for name in names[1:])
    problems.raise_any()
    deviations = {
        "Decisions by the fallback": counts.get("fallback", 0),
        "Outcomes that came too late": int(late.sum()),
        "Decision points with an outcome that was corrected or sent again": int((sent > 1).sum()),
    }
    decided = [
        Fact(f"{source}: {count:,} of {len(rows):,} decision points ({format_percent(count / len(rows))}).", file)
        for source, count in counts.items()
    ]
    return {"sources": decided, "deviations": [Fact(f"{words}: {count:,}.", file) for words, count in deviations.items()]}


def collect_file_facts(study: Study, name: str, logs: Path | None, fit: Path | None = None) -> Facts:
    """Facts from the study file called `name`, logs and the folder of a fit, as far as they are given."""
    facts = collect_study_facts(study, name)
    if logs is None:
        return facts
    read = study.read(logs)
    collections = [facts, collect_log_facts(study, read, logs.name), describe_checks(study, read, logs.name)]
    collections.append(collect_effect_facts(study, logs, logs.name))
    if fit is not None:
        collections.append(collect_fit_facts(study, fit, read.inputs))
    served = has_trial_updates(logs)
    if served:
        collections.append(collect_export_facts(study, logs))
    elif study.collection.policy == "fixed":
        unchanged = [Fact("None: the rule stayed the same.", f"{name} [collection]")]
        decided = [Fact("The same rule decided at every decision point.", f"{name} [collection]")]
        collections.append({"updates": unchanged, "policy_versions": unchanged, "sources": decided})
    elif study.collection.updates:
        collections.append({"updates": list(_describe_collection(StudyFile(study, name)))})
    if study.trial is not None and not served:
        plan = "These rules are a plan: the logs do not show whether a service followed them."
        collections.append({"service_rules": [Fact(plan, f"{name} [trial], {logs.name}")]})
    return merge_facts(*collections)
