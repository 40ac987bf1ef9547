"""The result of `check_personalisation`: scores of everybody next to those of resampled trials, p-values, pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from surefoot.data.frames import make_frame
from surefoot.reports.numbers import describe_p, format_p
from surefoot.reports.summaries import Overview, ShownResult, make_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

Floats = NDArray[np.float64]
ROUNDING = 1e-9
PICTURES = 6
"""Participants whose paths the page shows."""
ROWS = 10
"""Participants in the table of a terminal."""
LEVEL = 0.05
"""Of tests, and of the false discovery rate."""


def average_certainty(paths: Floats) -> Floats:
    """Everybody's score: the mean over decision points that a learned policy decided, (…, people).

    0.5 for people for whom no policy decided: nothing was learned about them.
    """
    known = ~np.isnan(paths)
    total = np.where(known, paths, 0.0).sum(axis=-1)
    return np.where(known.any(axis=-1), total / np.maximum(known.sum(axis=-1), 1), 0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Personalisation(ShownResult):
    """Scores of a trial's algorithm for each participant, compared with trials without an effect.

    Examples
    --------
    >>> by_chance = np.random.default_rng(0).uniform(0.3, 0.7, (39, 2))
    >>> certainty = np.array([[0.9, 1.0], [0.4, 0.6]])
    >>> result = Personalisation(np.array(["p1", "p2"]), certainty, by_chance, np.empty((0, 2, 2)), pooled=False)
    >>> result.personal
    array([ True, False])
    """

    participants: NDArray[Any]
    """Ids."""
    certainty: Floats
    """The probability that a prompt has a positive effect, as the algorithm held it at every decision point, (people,
    decision points); NaN where no learned policy decided."""
    resampled: Floats
    """Scores in resampled trials, (resamples, people)."""
    paths: Floats
    """`certainty` in the first resamples, (some resamples, people, decision points)."""
    pooled: bool
    """Whether everybody had the same policy."""
    notes: tuple[str, ...] = ()
    """Differences between the trial and its resamples."""

    page_title: ClassVar[str] = "Did the algorithm personalise?"

    def _overview(self) -> Overview:
        facts = {"answer": self.sentences()[0], "personal": f"{int(self.personal.sum())} of {int(self.judged.sum())} people"}
        heading = (
            f"Did the algorithm personalise? {len(self.participants):,} people, {len(self.resampled):,} resampled trials"
        )
        return Overview(heading, facts, [COLUMNS, *self._list_cells()])

    @cached_property
    def scores(self) -> Floats:
        """Everybody's mean probability of a positive effect, (people,)."""
        return average_certainty(self.certainty)

    @cached_property
    def shares(self) -> Floats:
        """Everybody's share of decision points at which the standardised advantage was positive; NaN without any."""
        known = ~np.isnan(self.certainty)
        positive = np.where(known, (np.sign(np.nan_to_num(self.certainty) - 0.5) + 1) / 2, 0.0).sum(axis=1)
        return np.where(known.any(axis=1), positive / np.maximum(known.sum(axis=1), 1), np.nan)

    @cached_property
    def judged(self) -> NDArray[np.bool_]:
        """Participants for whom a learned policy decided."""
        return np.asarray(~np.isnan(self.certainty).all(axis=1))

    @cached_property
    def _deviations(self) -> Floats:
        """Of all scores from everybody's mean, (1 + resamples, people); the trial is first.

        The trial counts in the mean, so that without an advantage it is exchangeable with its resamples.
        """
        scores = np.concatenate([self.scores[None], self.resampled])
        return np.asarray(scores - scores.mean(axis=0))

    @cached_property
    def p_values(self) -> Floats:
        """Of every participant: how often chance gives a score as far from the mean of resamples; NaN if not judged."""
        return np.where(self.judged, rank(np.abs(self._deviations))[0], np.nan)

    @cached_property
    def adjusted(self) -> Floats:
        """The same, adjusted for the number of participants (Benjamini and Hochberg's false discovery rate)."""
        adjusted = np.full(len(self.participants), np.nan)
        adjusted[self.judged] = false_discovery_control(self.p_values[self.judged])
        return adjusted

    @cached_property
    def spread(self) -> Floats:
        """Standard deviation of scores between people: of the trial, then of every resample."""
        return np.asarray(self._deviations[:, self.judged].std(axis=1))

    @cached_property
    def lean(self) -> Floats:
        """How far the mean of everybody's scores lies from chance: of the trial, then of every resample."""
        return np.asarray(self._deviations[:, self.judged].mean(axis=1))

    @property
    def spread_p_value(self) -> float:
        """How often chance lets scores differ so much between people."""
        return float(rank(self.spread)[0])

    @property
    def lean_p_value(self) -> float:
        """How often chance moves the mean score so far: did the algorithm learn about everybody together?"""
        return float(rank(np.abs(self.lean))[0])

    @cached_property
    def p_value(self) -> float:
        """Of the study: how often chance gives so small a p-value of the spread or of the lean, whichever is smaller.

        Where everybody had the same policy, of the lean alone.
        """
        by_lean = rank(np.abs(self.lean))
        smaller = by_lean if self.pooled else np.minimum(by_lean, rank(self.spread))
        return float(rank(-smaller)[0])

    @property
    def personal(self) -> NDArray[np.bool_]:
        """Participants about whom more was learned than chance explains, with a false discovery rate of 5 %."""
        return np.asarray(np.nan_to_num(self.adjusted, nan=1.0) <= LEVEL)

    @property
    def order(self) -> NDArray[np.int64]:
        """Participants who were judged, the strongest personalisation first."""
        away = np.abs(self._deviations[0])
        order = np.lexsort((-away, np.nan_to_num(self.p_values, nan=2.0)))
        return np.asarray(order[self.judged[order]])

    def sentences(self) -> list[str]:
        """The answer in words."""
        resamples = len(self.resampled)
        learned = "more" if self.p_value <= LEVEL else "not significantly more"
        texts = [
            f"The algorithm learned {learned} about people than chance explains: {describe_p(self.p_value)} "
            f"({resamples} resampled trials without any advantage)."
        ]
        if not self.pooled:
            differ = "differ" if self.spread_p_value <= LEVEL else "do not differ significantly"
            texts.append(
                f"People's scores {differ} more than by chance: their standard deviation is {self.spread[0]:.3f}, and in "
                f"resampled trials {self.spread[1:].mean():.3f} on average ({describe_p(self.spread_p_value)})."
            )
        leans = "leans" if self.lean_p_value <= LEVEL else "does not lean significantly"
        direction = "for" if self.lean[0] > 0 else "against"
        texts.append(
            f"Over all participants together the algorithm {leans} {direction} sending: the mean score is "
            f"{self.scores[self.judged].mean():.3f}, and in resampled trials "
            f"{self.resampled[:, self.judged].mean():.3f} ({describe_p(self.lean_p_value)})."
        )
        if self.pooled:
            texts.append("Everybody had the same policy: people differ only by the states in which they were.")
        else:
            judged = int(self.judged.sum())
            texts.append(
                f"{int(self.personal.sum())} of {judged} participants have scores that chance does not explain (false "
                "discovery rate of 5 %)."
            )
            if judged / LEVEL > resamples + 1 and not self.personal.any():
                texts.append(
                    f"{resamples} resamples cannot single out one of {judged} participants: that takes "
                    f"{int(np.ceil(judged / LEVEL)) - 1}."
                )
        return texts

    def _list_rows(self) -> list[dict[str, Any]]:
        low, high = np.quantile(self.resampled, (0.025, 0.975), axis=0)
        return [
            {
                "participant": self.participants[person],
                "decision_points": int((~np.isnan(self.certainty[person])).sum()),
                "share_positive": float(self.shares[person]),
                "score": float(self.scores[person]),
                "by_chance_low": float(low[person]),
                "by_chance_high": float(high[person]),
                "p_value": float(self.p_values[person]),
                "adjusted_p_value": float(self.adjusted[person]),
            }
            for person in self.order
        ]

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each participant whom a learned policy decided for, the strongest personalisation first."""
        rows = self._list_rows()
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        people = [{**row, "participant": str(row["participant"])} for row in self._list_rows()]
        return {
            "p_value": self.p_value,
            "spread_p_value": self.spread_p_value,
            "lean_p_value": self.lean_p_value,
            "spread": float(self.spread[0]),
            "spread_by_chance": float(self.spread[1:].mean()),
            "lean": float(self.lean[0]),
            "resamples": len(self.resampled),
            "personal": [str(participant) for participant in self.participants[self.personal]],
            "sentences": self.sentences(),
            "notes": list(self.notes),
            "people": people,
        }

    def _list_cells(self) -> list[tuple[str, ...]]:
        """The rows of the table as text."""
        return [
            (
                str(row["participant"]),
                f"{row['decision_points']:,}",
                f"{100 * row['share_positive']:.0f} %",
                f"{row['score']:.2f}",
                f"{row['by_chance_low']:.2f} to {row['by_chance_high']:.2f}",
                format_p(row["p_value"]),
                format_p(row["adjusted_p_value"]),
            )
            for row in self._list_rows()
        ]

    def print_summary(self, console: Console) -> None:
        for sentence in (*self.sentences(), *self.notes):
            console.print(sentence, markup=False, highlight=False)
        table = make_table(*COLUMNS)
        cells = self._list_cells()
        for row in cells[:ROWS]:
            table.add_row(*row)
        console.print(table)
        if len(cells) > ROWS:
            console.print(f"{len(cells) - ROWS} more participants: --html or --json shows all.", highlight=False)

    def plot(self, participant: Any = None, *, ax: Drawable = None) -> Axes:
        """A participant's path next to resampled ones; by default the participant with the strongest personalisation."""
        from surefoot.errors import InputError
        from surefoot.reports.figures import BLUE, GREY, add_legend, choose_axes, label_axes

        person = int(self.order[0])
        if participant is not None:
            matches = np.flatnonzero(self.participants.astype(str) == str(participant))
            if not matches.size or not self.judged[matches[0]]:
                raise InputError(f"no learned policy decided for a participant {participant!r}", participant=participant)
            person = int(matches[0])
        axes = choose_axes(ax, width=5.6, height=3.4)
        points = np.arange(1, self.certainty.shape[1] + 1)
        for number, path in enumerate(self.paths[:, person]):
            label = "resampled without an advantage" if number == 0 else None
            axes.plot(points, path, color=GREY, linewidth=0.7, alpha=0.6, label=label)
        axes.plot(points, self.certainty[person], color=BLUE, linewidth=2.0, label="trial")
        axes.axhline(0.5, color=GREY, linewidth=1.0, linestyle=":")
        axes.set_ylim(-0.02, 1.02)
        title = f"Participant {self.participants[person]}: {describe_p(self.p_values[person])}"
        label_axes(axes, x="decision point", y="probability of a positive effect", title=title)
        add_legend(axes)
        return axes

    def _plot_study(self) -> Axes:
        """Spread and lean of the trial next to those of resamples."""
        from surefoot.reports.figures import BLUE, GREY, add_legend, label_axes, new_figure

        axes: Axes = new_figure(width=5.6, height=3.4)[1]
        axes.scatter(self.lean[1:], self.spread[1:], s=12, color=GREY, alpha=0.6, label="resampled without an advantage")
        axes.scatter(self.lean[:1], self.spread[:1], s=60, color=BLUE, marker="D", label="trial")
        label_axes(axes, x="mean score minus that by chance", y="standard deviation of scores", title="The study")
        add_legend(axes)
        return axes

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import inline_svg, render

        words = "How much scores differ between people, and how far their mean lies from chance, in every trial."
        pictures = [
            (
                inline_svg(
                    self.plot(self.participants[person], ax=new_page_figure()),
                    f"Path of participant {self.participants[person]}",
                ),
                "",
            )
            for person in self.order[:PICTURES]
        ]
        return render(
            "personalised.html",
            title=title,
            source=source,
            result=self,
            study=[(inline_svg(self._plot_study(), words), words)],
            pictures=pictures,
            columns=COLUMNS,
            rows=self._list_cells(),
        )


COLUMNS = ("participant", "decided", "positive", "score", "95 % by chance", "p", "adjusted p")
"""Of the table: decision points that a policy decided, the share of them with a positive advantage, …"""


def rank(values: Floats) -> Floats:
    """For every value the share of all values that are at least as large, along the first axis: its p-value.

    >>> rank(np.array([3.0, 1.0, 2.0, 4.0]))
    array([0.5 , 1.  , 0.75, 0.25])
    """
    ordered = np.sort(values, axis=0)
    columns = values.reshape(len(values), -1).T
    below = [np.searchsorted(ordered.reshape(len(values), -1)[:, i], column - ROUNDING) for i, column in enumerate(columns)]
    # A count over a count: one less a share would lie above 5 % by rounding.
    return np.asarray((len(values) - np.stack(below, axis=-1).reshape(values.shape)) / len(values))
