"""The design of a trial: how many people, how long, when they enter, decide, report and leave, and when it learns."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from surefoot.study.toml_file import Probability, Section

Count = Annotated[int, Field(ge=1)]
FIRST_HOUR, LAST_HOUR, UPDATE_HOUR = 8, 20, 27
"""Decision points of a day are spread evenly between the first two; an update runs at three the next morning."""


class TrialDesign(Section):
    """`[design]` of a rehearsal; what a trial does besides comes from the study's `[trial]`.

    Attributes
    ----------
    participants
        How many people enter.
    days
        Of each participant.
    per_day
        Decision points a day.
    entry_days
        People enter evenly over so many days; 0: all on the first.
    cohort
        So many enter together.
    update_every
        Days between updates; 1 is nightly.
    outcome_delay
        Decision points by which outcomes come late.
    drop_out
        The share that would leave by the end without any prompts.
    drop_out_burden
        How much the daily hazard of leaving grows (log) per unit of burden, the discounted count of prompts.
    screen
        Whether updates screen, as the study says or, where it says nothing, by every detector.

    Examples
    --------
    >>> design = TrialDesign(participants=4, days=10, entry_days=6, cohort=2)
    >>> design.entries, design.calendar_days
    ([0, 0, 6, 6], 16)
    """

    participants: Count = 50
    days: Count = 42
    per_day: Count = 5
    entry_days: Annotated[int, Field(ge=0)] = 0
    cohort: Count = 1
    update_every: Count = 7
    outcome_delay: Annotated[int, Field(ge=0)] = 0
    drop_out: Annotated[Probability, Field(lt=1)] = 0.0
    drop_out_burden: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    screen: bool = True

    @property
    def entries(self) -> list[int]:
        """The day of the trial on which everybody enters, from 0: cohort c of C on day c · entry_days / (C − 1)."""
        cohorts = -(-self.participants // self.cohort)
        step = self.entry_days / max(cohorts - 1, 1)
        return [round(step * (person // self.cohort)) for person in range(self.participants)]

    @property
    def calendar_days(self) -> int:
        """From the first entry to the last participant's last day."""
        return max(self.entries) + self.days

    @property
    def decision_points(self) -> int:
        """Of each participant who stays."""
        return self.days * self.per_day

    def clock_time(self, day: int, place: int) -> timedelta:
        """When the decision point in this place of a day comes, from the midnight before the trial."""
        share = place / (self.per_day - 1) if self.per_day > 1 else 0.0
        return timedelta(days=day, hours=FIRST_HOUR, seconds=round(3600 * (LAST_HOUR - FIRST_HOUR) * share))

    def updates_after(self, day: int) -> bool:
        """Whether an update follows this day of the trial."""
        return (day + 1) % self.update_every == 0
