"""The `[trial]` section of a study: how the decision service runs it."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from surefoot.study.toml_types import Probability, Section

ClockTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Count = Annotated[int, Field(ge=1)]
Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Address = Annotated[str, Field(pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$", max_length=254)]
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_daily_time(text: str) -> str:
    """A time of day or `never`."""
    if text != "never" and not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError(f"'{text}' is not a time of day; write '03:00', or 'never'")
    return text


class GuardRails(Section):
    """What a new policy must satisfy before it goes live."""

    max_removed: Probability = 0.2
    """Largest share of the decision points used that the robust critic may have removed."""
    max_send_rate_change: Probability = 0.3
    """Largest change of the mean probability of sending anything, over the logged states."""
    max_coefficient_change: Annotated[float, Field(gt=0)] = 6
    """Largest change of a policy coefficient from one version to the next, in standard errors."""
    max_influence: Probability = 0.3
    """Largest mean change of the probabilities that leaving out one decision point, or one participant, may make."""
    plausible_widths: Annotated[float, Field(gt=0)] = 10
    """A value of a variable without a range is implausible further from the median than this many times the spread of the
    middle 90 %."""


class Alerts(Section):
    """When the trial team is told that something is wrong, and how: passwords and secrets come from the environment."""

    no_data_hours: Hours = 24
    """No decision for so long."""
    max_fallback_share: Probability = 0.2
    """Share of the available decision points of the last 24 hours that the fallback decided."""
    email: tuple[Address, ...] = ()
    """Who gets alerts by e-mail."""
    sender: Address | None = None
    """From whom; the first of `email` if it is not given."""
    smtp_host: str | None = None
    """The mail server that takes them."""
    smtp_port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Where that server listens."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """`tls` from the first byte, as port 465 wants it; `none` only for a mail server on this machine."""
    webhook: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    """A URL that gets alerts as JSON, signed with SUREFOOT_WEBHOOK_SECRET."""
    max_per_hour: Count = 20
    """Messages by each way; when more is to be told, the last of them tells all of it."""
    digest_time: str = "08:00"
    """When the daily digest is sent, or `never`."""
    dashboard_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    """Where the dashboard is, for messages to point to."""

    @field_validator("digest_time")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        return check_daily_time(text)

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if self.email and self.smtp_host is None:
            raise ValueError("'email' needs a mail server; write smtp_host = 'mail.example.org'")
        if self.smtp_security == "none" and self.smtp_host not in (None, *LOOPBACK):
            raise ValueError("smtp_security = 'none' is for a mail server on this machine; write 'starttls' or 'tls'")
        if self.webhook is not None and not self.webhook.startswith("https://"):
            host = urlsplit(self.webhook).hostname
            if host not in LOOPBACK:
                raise ValueError("a webhook on another machine needs https://")
        return self

    @property
    def digest_at(self) -> time | None:
        """The time of the daily digest; None for never."""
        return None if self.digest_time == "never" else time.fromisoformat(self.digest_time)


class Limits(Section):
    """What one client may ask of the service."""

    body_kilobytes: Annotated[int, Field(ge=1, le=16_384)] = 256
    """The largest request."""
    requests_per_second: Count = 100
    """Of one key, on average, at one worker; twice as many may come at once."""
    future_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10
    """How far ahead of the server's clock a timestamp may be."""


class Dose(Section):
    """How much may be sent to one participant, enforced by the service: beyond it the probability of sending is 0."""

    prompts_per_day: Count | None = None
    """In any 24 hours."""
    prompts_per_week: Count | None = None
    """In any 7 days."""
    minimum_gap_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """Between two prompts."""

    @property
    def is_limited(self) -> bool:
        return self.prompts_per_day is not None or self.prompts_per_week is not None or self.minimum_gap_minutes > 0


class TrialSection(Section):
    """How the study is run: warm-up, nightly updates, fallback, guard rails, outcomes, alerts.

    Attributes
    ----------
    title
        What pages and exports call the study.
    warm_up_decision_points
        Complete decision points that a participant (pooled: the study) needs before a learned policy decides.
    warm_up_probability
        Of sending anything; several actions share it equally.
    fallback_probability
        Of sending anything, where no policy can decide.
    update_time
        Hour and minute of the nightly update, or `never`.
    time_zone
        Of the update time and of "today".
    policy_days
        A policy that went live longer ago is stale: the fallback decides.
    day_boundary
        Decision points a day, or, for logs with timestamps, the clock time at which a day begins: what a night is.
    max_gap
        With a long-run horizon: decision points this far apart still count as consecutive.
    outcome_hours
        How long after its decision point an outcome counts; a later one is recorded as late.
    activation
        Whether an update that passed the guard rails goes live by itself.
    decision_gap_minutes
        Decision points of a participant that follow sooner are refused; 0: the study has no such rule.
    learn_from_withdrawn
        Whether what a participant gave before withdrawing still counts in later updates.
    keep_days
        Contexts and outcomes that came longer ago are erased, every day; None: they are kept.
    key_days
        A new API key is good for so many days.
    dose
        `[trial.dose]`: how much may be sent.
    guard_rails
        `[trial.guard_rails]`: what an update must pass.
    alerts
        `[trial.alerts]`: what somebody should hear of.
    limits
        `[trial.limits]`: how much a key may ask.
    """

    title: str = "Surefoot study"
    warm_up_decision_points: Count = 42
    warm_up_probability: Probability = 0.5
    fallback_probability: Probability = 0.5
    update_time: str = "03:00"
    time_zone: str = "UTC"
    policy_days: Annotated[float, Field(gt=0)] = 14
    day_boundary: Annotated[int, Field(ge=1)] | ClockTime | None = None
    max_gap: Count = 1
    outcome_hours: Hours = 48
    activation: Literal["automatic", "manual"] = "automatic"
    decision_gap_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    learn_from_withdrawn: bool = False
    keep_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    key_days: Annotated[float, Field(gt=0, le=36_500)] = 365
    dose: Dose = Dose()
    guard_rails: GuardRails = GuardRails()
    alerts: Alerts = Alerts()
    limits: Limits = Limits()

    @field_validator("update_time")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        return check_daily_time(text)

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone '{name}'; write one like 'Europe/Zurich'") from error
        return name

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @property
    def day_begins(self) -> time:
        """When a day of the trial begins: `day_boundary`, where it is a clock time, or midnight."""
        return time.fromisoformat(self.day_boundary) if isinstance(self.day_boundary, str) else time()

    def find_day(self, moment: datetime) -> date:
        """The day that a moment belongs to, in the trial's time zone.

        >>> section = TrialSection(day_boundary="04:00")
        >>> section.find_day(datetime.fromisoformat("2026-03-02T03:59:00+00:00")).isoformat()
        '2026-03-01'
        """
        local = moment.astimezone(self.zone)
        return local.date() - timedelta(days=local.time() < self.day_begins)

    @property
    def update_at(self) -> time | None:
        """The time of the nightly update; None for never."""
        return None if self.update_time == "never" else time.fromisoformat(self.update_time)
