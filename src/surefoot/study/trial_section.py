"""The sections `[effects]`, `[monitoring]` and `[trial]`: the primary analysis, boundaries for a board, and the service."""

import re
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, field_validator, model_validator

from surefoot.study.toml_file import Count, Finite, NotNegative, Positive, Probability, Section, Words

ClockTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Address = Annotated[str, Field(pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$", max_length=254)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _check_daily_time(text: str) -> str:
    if text != "never" and not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError(f"'{text}' is not a time of day; write '03:00', or 'never'")
    return text


def parse_daily_time(text: str) -> time | None:
    """The time of day; None for `never`."""
    return None if text == "never" else time.fromisoformat(text)


DailyTime = Annotated[str, AfterValidator(_check_daily_time)]


class EffectsSection(Section):
    """Which causal excursion effect is estimated; moderators and controls are state variables."""

    estimator: Literal["wcls", "dr-wcls", "emee", "emee2", "dcee", "mcee"] = "wcls"
    """Continuous outcome, without and with a learned outcome model; binary outcome, with and without weights; one distal
    outcome for each participant, and the same directly and through a mediator."""
    outcome: str | None = None
    """A column of the logs; by default that of `[outcome]`, with its limits and its transform."""
    outcome_words: str | None = None
    """The outcome in sentences: "steps in the next half hour"."""
    treatment_words: str | None = None
    """The treatment in sentences, where there are two actions: "suggestion"."""
    transform: str | None = None
    """Of an outcome that is not that of `[outcome]`."""
    formula: str | None = None
    """`outcome ~ treatment * (moderators) + controls`, in place of these three keys: "steps ~ prompt * C(location)"."""
    moderators: Words = ()
    """State variables by which the effect may differ."""
    select: Words = ()
    """Candidates among which half of the participants choose moderators; the other half estimates their effects."""
    select_seed: Annotated[int, Field(ge=0)] = 0
    """Seed of that division of the participants."""
    controls: Words = ()
    """State variables that explain the outcome, for smaller standard errors."""
    learner: Literal["linear", "forest", "boosting"] | None = None
    """The regressor of `dr-wcls` (`forest` unless named), `dcee` and `mcee` (`linear`), cross-fitted by participant."""
    mediator: str | None = None
    """Of `mcee`: the column through which treatment may act on the distal outcome."""
    numerator: float | tuple[float, ...] | str | None = None
    """p̃: a number, a number for each action but nothing, or a column that depends on the moderators only."""
    lags: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """How many decision points later the outcome is measured."""
    future: Literal["observed", "none"] = "observed"
    """Treatment between the decision and an outcome at a lag."""
    missing_as: Finite | dict[str, Finite] | None = None
    """The value of a missing outcome, or {outcome or state variable = value}, where the study defines it."""
    missing: Literal["complete", "weighted", "imputed"] = "complete"
    """The primary analysis of missing outcomes: complete rows, weights by the probability of being observed, or multiple
    imputation. The report shows all three."""
    imputations: Annotated[int, Field(ge=2)] = 20
    """How often missing outcomes are imputed."""
    at: tuple[dict[str, Finite], ...] = ()
    """Values of the moderators at which the effect is estimated."""
    day: str | None = None
    """The state variable over which the effect is drawn; `day` where there is one."""
    day_knots: Annotated[int, Field(ge=0, le=8)] = 2
    """Interior knots of the curve over days, a natural cubic spline; 0 for a straight line."""
    distal: str | None = None
    """A column with one outcome for each participant, repeated on every row; its effect stands next to the proximal one."""
    errors: Literal["usual", "adaptive"] | None = None
    """Standard errors that take the trial's policies as given, or those of a replication; by default the valid ones."""

    @model_validator(mode="after")
    def _formula_stands_alone(self) -> Self:
        given = [key for key in ("outcome", "moderators", "controls") if getattr(self, key)]
        if self.formula is not None and given:
            raise ValueError(f"the formula names outcome, moderators and controls; leave out {', '.join(given)}")
        return self


class MonitoringSection(Section):
    """Boundaries for a board: an alert goes out when a 95 % confidence sequence lies beyond one.

    Differences of outcomes are in the units of the outcome after its transform.

    Examples
    --------
    >>> MonitoringSection(harm=10, futility=5).burden is None
    True
    """

    harm: NotNegative | None = None
    """The policy harms when its mean outcome is lower by more than this than with the policy that `harm_against` names."""
    harm_against: Literal["never", "coin"] = "never"
    """Sending nothing, or every action with the same probability."""
    futility: Finite | None = None
    """The smallest effect of sending something that is worth having; prompts are futile when it is smaller."""
    burden: Positive | None = None
    """The most prompts a participant should get per day, on average over everybody."""
    sequence: Literal["bounded", "asymptotic"] | None = None
    """`bounded` uses the range of the outcome and is valid for any number of decision points; by default where the outcome
    has a `range` or `winsorise`."""
    wait_hours: Positive | None = None
    """Hours after a decision point at which the outcome known by then is taken for good; by default `outcome_hours`."""


class GuardRails(Section):
    """Conditions that a new policy must satisfy before it is put to use."""

    max_removed: Probability = 0.2
    """Largest share of the decision points used that the robust critic may have removed."""
    max_send_rate_change: Probability = 0.3
    """Largest change of the mean probability of sending anything, over the logged states."""
    state_change: Probability = 0.5
    """A logged state counts as changed if the probability of an action moves by more than this."""
    max_changed_states: Probability = 0.7
    """Largest share of the logged states that may change from the live policy to the next."""
    max_person_change: Probability = 0.7
    """Largest mean change of the probabilities in any participant from the live policy to the next."""
    max_newcomer_change: Probability = 0.2
    """Largest mean change of the probabilities of the others that newcomers may make: participants from whom no policy
    learned before the last `newcomer_days`."""
    newcomer_days: Annotated[float, Field(ge=0, le=365)] = 7
    """How long participants are newcomers, so that many of them cannot turn the policy in several nights either. At 0 they
    are those from whom the live policy has not learned."""
    max_coefficient_change: Annotated[float, Field(gt=0)] = 6
    """Largest change of a policy coefficient from one version to the next, in standard errors."""
    max_influence: Probability = 0.3
    """Largest mean change of the probabilities that leaving out one decision point, or one participant, may make."""
    plausible_widths: Annotated[float, Field(gt=0)] = 10
    """A value of a variable without a range is implausible further from the median than this many times the spread of the
    middle 90 %."""


class Alerts(Section):
    """When and how the trial team is alerted; passwords and secrets come from the environment."""

    no_data_hours: Positive = 24
    """Hours without a decision after which the team is alerted."""
    max_fallback_share: Probability = 0.2
    """Largest share of the available decision points of the last 24 hours that the fallback may have decided."""
    silent_days: Positive = 2
    """Days without a decision point of a participant, who is not paused, after which the team is alerted."""
    backup_hours: Positive = 26
    """Hours without a backup after which the team is alerted."""
    seal_hours: Positive = 26
    """Hours without a seal after which the team is alerted."""
    disk_gigabytes: NotNegative = 1
    """The team is alerted when a disk of the trial has less space left."""
    email: tuple[Address, ...] = ()
    """Addresses that receive alerts by e-mail."""
    sender: Address | None = None
    """The sender's address; by default the first of `email`."""
    smtp_host: str | None = None
    """The mail server."""
    smtp_port: Annotated[int, Field(ge=1, le=65535)] = 587
    """The mail server's port."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """`tls` from the first byte, as port 465 requires; `none` only for a mail server on this machine."""
    webhook: Url | None = None
    """A URL that receives alerts as JSON, signed with SUREFOOT_WEBHOOK_SECRET."""
    max_per_hour: Count = 20
    """Messages per channel; when there are more alerts, the last message lists all of them."""
    digest_time: DailyTime = "08:00"
    """When the daily digest is sent, or `never`."""
    dashboard_url: Url | None = None
    """The address of the dashboard, for links in messages."""

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
        return parse_daily_time(self.digest_time)


class SingleSignOn(Section):
    """An OpenID provider at which the team signs in; the client's secret comes from SUREFOOT_OIDC_SECRET."""

    issuer: Url
    """As the provider calls itself; its addresses are on the same host."""
    client_id: Annotated[str, Field(min_length=1, max_length=200)]
    """By which the provider knows this service."""
    dashboard_url: Url
    """The address of the dashboard in the browser; the provider sends people back to it."""
    roles: Annotated[dict[str, Literal["analyst", "coordinator", "monitor", "admin"]], Field(min_length=1)]
    """The role of each group that the provider names."""
    claim: str = "groups"
    """The claim of the ID token with the groups; dots for nested ones: `realm_access.roles`."""
    name_claim: str = "email"
    """The claim with the name under which a person's actions are shown."""
    scope: str = "openid profile email"
    """What the provider is asked for."""

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        for name, url in (("issuer", self.issuer), ("dashboard_url", self.dashboard_url)):
            if not url.startswith("https://") and urlsplit(url).hostname not in LOOPBACK:
                raise ValueError(f"'{name}' on another machine needs https://")
        return self


class Limits(Section):
    """Limits for the requests of one client."""

    body_kilobytes: Annotated[int, Field(ge=1, le=16_384)] = 256
    """The largest request."""
    requests_per_second: Count = 100
    """Requests of one key to one worker, on average; twenty times as many may come at once. Decisions of one participant get
    a tenth of it."""
    future_minutes: NotNegative = 10
    """How far ahead of the server's clock a timestamp may be."""
    public_documentation: bool = True
    """Whether anybody may read the description of the API, at `/docs` and `/openapi.json`."""


class Dose(Section):
    """Limits for prompts to one participant, enforced by the service: beyond them the probability of sending is 0."""

    prompts_per_day: Count | None = None
    """In any 24 hours."""
    prompts_per_week: Count | None = None
    """In any 7 days."""
    minimum_gap_minutes: NotNegative = 0
    """Between two prompts."""

    @property
    def is_limited(self) -> bool:
        return self.prompts_per_day is not None or self.prompts_per_week is not None or self.minimum_gap_minutes > 0


class Backup(Section):
    """Nightly backups by the service; the passphrase comes from SUREFOOT_BACKUP_PASSPHRASE."""

    folder: str | None = None
    """The folder that gets them, best on a disk of another machine; None: the service makes none."""
    backup_time: ClockTime = "04:30"
    """Hour and minute, in the trial's time zone."""
    keep: Count = 30
    """Number of backups that are kept; older ones are deleted."""
    encrypted: bool = True
    """Whether they are encrypted by the passphrase."""

    @property
    def at(self) -> time:
        """The time of the nightly backup."""
        return time.fromisoformat(self.backup_time)


class TrialSection(Section):
    """How the service runs the study: warm-up, nightly updates, fallback, guard rails, outcomes, alerts."""

    title: str = "Surefoot study"
    """The study's name on pages and in exports."""
    warm_up_decision_points: Count = 42
    """Complete decision points that a participant (pooled: the study) needs before a learned policy decides."""
    warm_up_probability: Probability = 0.5
    """Of sending anything; several actions share it equally."""
    fallback_probability: Probability = 0.5
    """Of sending anything, where no policy can decide."""
    update_time: DailyTime = "03:00"
    """Hour and minute of the nightly update, or `never`."""
    time_zone: str = "UTC"
    """Of the update time and of "today"."""
    policy_days: Annotated[float, Field(gt=0)] = 14
    """Days after which a live policy is stale: the fallback decides."""
    day_boundary: Count | ClockTime | None = None
    """Decision points a day, or, for logs with timestamps, the clock time at which a day begins."""
    max_gap: Count = 1
    """With a long-run horizon: the largest distance of decision points that still count as consecutive."""
    outcome_hours: Positive = 48
    """Hours after its decision point in which an outcome counts; a later one is recorded as late."""
    activation: Literal["automatic", "manual"] = "automatic"
    """Whether an update that passed the guard rails is put to use without a person."""
    decision_gap_minutes: NotNegative | None = None
    """Decision points of a participant that follow sooner are refused. By default a tenth of the time between two decision
    points where `day_boundary` is the number a day, else one minute; 0: only equal timestamps are refused."""
    learn_from_withdrawn: bool = False
    """Whether the data of a participant before withdrawing still count in later updates."""
    keep_days: Positive | None = None
    """Days after which contexts and outcomes are erased; None: they are kept."""
    key_days: Annotated[float, Field(gt=0, le=36_500)] = 365
    """Days after which a new API key expires."""
    dose: Dose = Dose()
    """`[trial.dose]`: limits for prompts."""
    guard_rails: GuardRails = GuardRails()
    """`[trial.guard_rails]`: conditions for new policies."""
    alerts: Alerts = Alerts()
    """`[trial.alerts]`: messages to the team."""
    backup: Backup = Backup()
    """`[trial.backup]`: nightly backups."""
    oidc: SingleSignOn | None = None
    """`[trial.oidc]`: single sign-on for the team."""
    limits: Limits = Limits()
    """`[trial.limits]`: limits for requests."""

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
    def decision_gap(self) -> timedelta:
        """The least time between two decision points of a participant.

        >>> TrialSection(day_boundary=5).decision_gap, TrialSection(decision_gap_minutes=60).decision_gap
        (datetime.timedelta(seconds=1728), datetime.timedelta(seconds=3600))
        """
        if self.decision_gap_minutes is not None:
            return timedelta(minutes=self.decision_gap_minutes)
        a_day = self.day_boundary
        return timedelta(days=1) / (10 * a_day) if isinstance(a_day, int) else timedelta(minutes=1)

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
        return parse_daily_time(self.update_time)
