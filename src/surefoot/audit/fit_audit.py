"""The audit of a fitted method: its result as numbers, text, plots and page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from surefoot.audit.checks import check_standing_still, judge, order_advice
from surefoot.audit.measures import Measures, Sensitivity, find_audited
from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, describe_roughness
from surefoot.learning.methods import Method
from surefoot.log_checks import Check, check_logs, find_worst
from surefoot.reports.numbers import count_decimals, format_cells, format_estimate, format_percent
from surefoot.reports.summaries import Overview, ShownResult, make_table, to_plain
from surefoot.screening.screen import Screen
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

STYLES = {"fine": "green", "look": "yellow", "unsafe": "bold red"}
PRINTED_PEOPLE = 5
SHOWN_ROWS = 12
SHOWN_PEOPLE = 200


@dataclass(frozen=True, eq=False, repr=False)
class Audit(ShownResult):
    """What a fit left out, and the verdict of every check."""

    page_title: ClassVar[str] = "Audit"
    machinery = ShownResult.machinery | {"describe_counts", "list_most_removed", "measures"}

    measures: Measures
    """The audited fit, with what it removed."""
    implausible: dict[str, NDArray[np.int64]]
    """For each column the number of implausible values of every participant."""
    checks: tuple[Check, ...]
    """One question each, with verdict, reason and remedy."""
    sensitivity: tuple[Sensitivity, ...]
    """The same method with its limit elsewhere, and without."""

    def _overview(self) -> Overview:
        rows = [[check.name, check.verdict, check.reason] for check in self.checks if check.verdict != "fine"]
        facts = {
            "counts": self.describe_counts(),
            "mean effect": f"{format_estimate(self.effect)} of sending",
            "checks": f"{len(self.checks) - len(rows)} of {len(self.checks)} are fine",
        }
        return Overview(f"Audit of a fit: {self.verdict}", facts, [["check", "verdict", "reason"], *rows])

    @property
    def verdict(self) -> str:
        """The worst of the checks: `fine`, `look` or `unsafe`."""
        return find_worst(check.verdict for check in self.checks)

    @property
    def effect(self) -> Interval:
        """The mean effect of sending in the audited fit."""
        return find_audited(self.sensitivity).effect

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the audit that were left out because the critic has many coefficients, in sentences."""
        return self.measures.list_omissions()

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)

    def totals(self) -> dict[str, Any]:
        """Counts over all people."""
        counts = {name: int(values.sum()) for name, values in self._columns().items() if values.dtype.kind in "iu"}
        people = len(self.measures.fitted.logs_.participants)
        return {"people": people, **counts, "outcome_share": self.measures.outcome_share()[0]}

    def _columns(self) -> dict[str, NDArray[Any]]:
        measures = self.measures
        logs = measures.fitted.logs_
        above = measures.removed & (np.where(measures.used, measures.relative, 0.0) > 0)
        counted = {
            "decision_points": np.ones(len(logs), dtype=bool),
            "available": logs.available,
            "used": measures.used,
            "removed": measures.removed,
            "removed_above": above,
            "removed_below": measures.removed & ~above,
        }
        values = {**dict(zip(logs.state_names, logs.state.T, strict=True)), logs.names.outcome: logs.outcome}
        missing = {f"missing {name}": logs.available & np.isnan(column) for name, column in values.items()}
        counts, gaps = (
            {name: measures.total(rows).astype(np.int64) for name, rows in masks.items()} for masks in (counted, missing)
        )
        sizes = measures.total(np.where(measures.removed, np.abs(measures.fitted.residuals_), 0.0))
        shares = {
            "mean_removed_residual": sizes / np.maximum(counts["removed"], 1),
            "outcome_share": measures.outcome_share()[1],
        }
        return counts | shares | gaps | {f"implausible {name}": values for name, values in self.implausible.items()}

    def people(self, backend: str | None = None) -> Any:
        """One row per participant: counts, missing and implausible values by column, and what the critic removed."""
        logs = self.measures.fitted.logs_
        return make_frame({logs.names.participant: logs.participants, **self._columns()}, backend or logs.backend)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per check: name, verdict, reason and remedy."""
        names = ("name", "verdict", "reason", "remedy")
        data = {name: [getattr(check, name) for check in self.checks] for name in names}
        return make_frame(data, backend or self.measures.fitted.logs_.backend)

    def list_most_removed(self, most: int) -> list[dict[str, Any]]:
        """The rows of `people` with the largest shares of removed decision points, in that order."""
        table = self.people("pyarrow")
        share = table["removed"].to_numpy() / np.maximum(table["used"].to_numpy(), 1)
        rows: list[dict[str, Any]] = table.take(np.argsort(-share, kind="stable")[:most]).to_pylist()
        return rows

    def removed(self, backend: str | None = None, *, most: int | None = None) -> Any:
        """Every decision point that the critic removed: participant, time, action, logged and expected outcome.

        A transformed outcome is shown as it was logged and as it was fitted. With `most` at most that many, those furthest
        from the fit first.
        """
        measures = self.measures
        fitted = measures.fitted
        logs = fitted.logs_
        rows = logs.order[measures.removed[logs.order]]
        if most is not None:
            rows = rows[np.argsort(-np.abs(fitted.residuals_[rows]), kind="stable")[:most]]
        raw = {} if measures.unit.transform == "none" else {measures.unit.column: measures.raw_outcome[rows]}
        data = {
            logs.names.participant: logs.participant[rows],
            logs.names.time: logs.time[rows],
            logs.names.action: np.array(logs.action_names)[logs.action[rows]],
            **raw,
            str(measures.unit): logs.outcome[rows],
            "expected": logs.outcome[rows] - fitted.residuals_[rows],
            "residual": fitted.residuals_[rows],
            "limit": np.sqrt(fitted.threshold_[fitted.unit_[rows]]),
        }
        return make_frame(data, backend or logs.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "verdict": self.verdict,
            "left_out": list(self.left_out),
            "totals": self.totals(),
            "checks": to_plain(self.checks),
            "sensitivity": to_plain(self.sensitivity),
            "people": self.people("pyarrow").to_pylist(),
        }

    def describe_counts(self) -> str:
        """The number of decision points that there are, can be used, and were removed."""
        totals = self.totals()
        removal = self.measures.fitted.critic_.removal
        people = describe_roughness(totals["people"]) or f"{totals['people']} people"
        removed = "none removed"
        if removal is not None:
            removed = (
                f"{totals['removed']:,} removed by {removal.name} ({totals['removed_above']:,} above the fit, "
                f"{totals['removed_below']:,} below), holding {format_percent(totals['outcome_share'])} of the total outcome"
            )
        return (
            f"{people}, {totals['decision_points']:,} decision points: {totals['available']:,} available, "
            f"{totals['used']:,} used, {removed}"
        )

    def print_summary(self, console: "Console") -> None:
        """Counts, checks, other limits, the people who lost most, and the verdict."""
        console.print(self.describe_counts(), markup=False)
        totals = self.totals()
        for kind in ("missing ", "implausible "):
            columns = [name for name, count in totals.items() if name.startswith(kind) and count]
            if columns:
                counts = ", ".join(f"{name.removeprefix(kind)} {totals[name]}" for name in columns)
                console.print(f"{kind}by column: {counts}", markup=False)
        for check in self.checks:
            console.print(f"\n[{STYLES[check.verdict]}]{check.verdict:<6}[/] [bold]{check.name}[/]")
            console.print(Padding(Text(check.reason + (f"\n→ {check.remedy}" if check.remedy else "")), (0, 0, 0, 7)))
        console.print()
        if self.left_out:
            console.print("[bold]Left out[/]")
            for sentence in self.left_out:
                console.print(Padding(Text(sentence), (0, 0, 0, 2)))
            console.print()
        if self.measures.fitted.critic_.removal is not None:
            console.print(f"[bold]With {escape(self.measures.fitted.critic_.limit_name)} elsewhere[/]")
            table = make_table("tau", "removed", "mean effect", "95 % interval", "send rate")
            decimals = count_decimals(row.effect for row in self.sensitivity)
            for row in self.sensitivity:
                effect = format_cells(row.effect, decimals)
                table.add_row(row.label, format_percent(row.removed), *effect, format_percent(row.send_rate))
            console.print(table)
            console.print("[bold]People who lost most[/]")
            table = make_table("participant", "used", "removed", "above", "below", "share of outcome")
            for person in self.list_most_removed(PRINTED_PEOPLE):
                counted = [str(person[name]) for name in ("used", "removed", "removed_above", "removed_below")]
                name = escape(str(person[self.measures.fitted.logs_.names.participant]))
                table.add_row(name, *counted, format_percent(person["outcome_share"]))
            console.print(table)
        console.print(f"Verdict: [{STYLES[self.verdict]}]{self.verdict}[/]")

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """Histogram of the residuals in units of their limit, kept and removed."""
        from surefoot.audit.page import draw_residuals

        return draw_residuals(self.measures, ax)[0]

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.audit.page import draw_pictures
        from surefoot.reports.render import embed_pictures, render

        people = self.list_most_removed(SHOWN_PEOPLE)
        participant, *columns = people[0]
        gaps = [name for name in columns if name.startswith(("missing ", "implausible "))]
        return render(
            "audit.html",
            title=title,
            source=source,
            audit=self,
            removal=self.measures.fitted.critic_.removal,
            charts=embed_pictures(draw_pictures(self.measures, self.sensitivity)),
            people=people,
            people_tables={
                "Decision points and what the fit removed": [name for name in (participant, *columns) if name not in gaps],
                "Missing and implausible values": [
                    participant,
                    *(name for name in gaps if any(row[name] for row in people)),
                ],
            },
            people_in_all=len(self.measures.fitted.logs_.participants),
            removed=self.removed("pyarrow", most=SHOWN_ROWS).to_pylist(),
            removed_in_all=int(self.measures.removed.sum()),
        )


def audit(
    fitted: Method,
    *,
    raw_outcome: ArrayLike | None = None,
    implausible: Mapping[str, NDArray[np.int64]] | None = None,
    study: Study | None = None,
    screen: Screen | None = None,
) -> Audit:
    """Audit a fitted method: what did it remove, and can its effects be trusted?

    Parameters
    ----------
    fitted
        A method after `fit`.
    raw_outcome
        Outcomes as they were logged, where the fit used transformed ones: shares of the total are counted in them; from
        `study.read`.
    implausible
        For each column the number of every participant's values outside the plausible range; from `study.read`.
    study
        Says how states were scaled and the outcome transformed, so that values and effects are shown in their own units.
    screen
        Values that were marked missing before the fit; from `study.read`.

    Returns
    -------
    Audit
        Verdict, checks, tables and page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> audit(sf.method("ro-accb").fit(logs)).verdict
    'fine'
    """
    if not isinstance(fitted, Method):
        raise InputError(
            f"audit takes a fitted method, not {type(fitted).__name__}; fit one first: surefoot.method('ro-accb').fit(logs)"
        )
    measures = Measures.of(fitted, None if raw_outcome is None else np.asarray(raw_outcome, dtype=np.float64), study)
    people = len(fitted.logs_.participants)
    counts = {name: np.asarray(values, dtype=np.int64) for name, values in (implausible or {}).items()}
    for name, values in counts.items():
        if values.shape != (people,):
            raise InputError(f"implausible['{name}'] has shape {values.shape}; give one count for each of {people} people")
    sensitivity = measures.sensitivity()
    read = StudyLogs(fitted.logs_, measures.raw_outcome, counts, np.arange(len(fitted.logs_)), screen)
    still = check_standing_still(fitted.logs_, measures.raw_outcome)
    checks = order_advice(check_logs(read, study), (*judge(measures, sensitivity), still))
    return Audit(measures, counts, checks, sensitivity)
