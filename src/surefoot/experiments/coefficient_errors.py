"""S5 and S6: how far coefficients are from the truth when a part of the data is wrong.

The simulator is HeartSteps. An error is ‖ŵ − w*‖ of one participant's critic. S5 compares critics when outliers are put in,
relative to least squares on the clean data and to an oracle: least squares on the untouched decision points only. S6 puts in
the artefacts of devices and questionnaires and compares methods with and without the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.experiments.engine import Experiment, Limit, Parameters, Report, limits_table, make_method, markdown_table
from surefoot.learning.methods import Method
from surefoot.policies import coin
from surefoot.policies.features import critic_features
from surefoot.reports import figures
from surefoot.screening import screen
from surefoot.simulators import HeartSteps, contaminate
from surefoot.simulators.heartsteps import BETA, REWARD_NOISE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
DECISION_POINTS = 210
CRITICS: dict[str, Callable[[], Method]] = {
    "least squares": partial(make_method, "linucb"),
    "hampel": partial(make_method, "filter-linucb"),
    "kalman": partial(make_method, "filter-linucb", filter="kalman"),
    "capped": partial(make_method, "ro-linucb"),
    "high-breakdown": partial(make_method, "hb-linucb"),
}
"""By the critic: the decision rule changes no coefficient, and LinUCB's is the quickest."""
OURS = "high-breakdown"


def collect_logs(participants: int, replicate: int, seed: int) -> tuple[Trajectories, np.random.SeedSequence]:
    """Clean logs of one replicate under a coin, and the seed of what is put into them."""
    dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(replicate, part)) for part in range(2))
    simulator = HeartSteps(participants=participants)
    return simulator.collect(coin(2), decision_points=DECISION_POINTS, seed=dynamics), outliers


def measure_errors(logs: Trajectories, critic: str) -> Floats:
    """Everybody's distance from the true coefficients."""
    return _distances(CRITICS[critic]().fit(logs).critic_coef_)


def measure_oracle(logs: Trajectories, touched: NDArray[np.bool_]) -> Floats:
    """The same of least squares without exactly the decision points that were touched."""
    return measure_errors(logs.with_values(reward=np.where(touched, np.nan, logs.reward)), "least squares")


def _distances(coefficients: Floats) -> Floats:
    return np.asarray(np.linalg.norm(coefficients - HeartSteps.critic_coef, axis=1))


# S5


class Scenario(NamedTuple):
    """What is put into the logs."""

    mechanism: str
    ratio: float = 0.0
    strength: float = 5.0

    def __str__(self) -> str:
        share = f" {100 * self.ratio:g} %" if self.ratio else ""
        return self.mechanism + share + (f", ν = {self.strength:g}" if self.strength != 5 else "")

    def contaminate(self, clean: Trajectories, seed: np.random.SeedSequence) -> tuple[Trajectories, NDArray[np.bool_]]:
        """The logs with it, and which rows were touched."""
        if self.mechanism == "clean":
            return clean, np.zeros(len(clean), dtype=bool)
        dirty = contaminate(clean, mechanism=self.mechanism, ratio=self.ratio, strength=self.strength, seed=seed)
        return dirty.logs, dirty.touched


SCENARIOS = (
    Scenario("clean"),
    *(Scenario("sensor", ratio) for ratio in (0.04, 0.1, 0.2, 0.3)),
    Scenario("sensor", 0.3, 10.0),
    *(Scenario("prompted", ratio) for ratio in (0.1, 0.2)),
    *(Scenario("careless", ratio) for ratio in (0.1, 0.2, 0.3)),
)
S5_LIMITS = {"clean": 1.04, "sensor": 1.05, "prompted 10 %": 1.06, "prompted 20 %": 1.30}
"""Of the high-breakdown critic: on clean data relative to least squares, elsewhere relative to the oracle."""
BEYOND = (
    "Under `prompted` outliers only treated decision points are touched. Beyond half of them no method can know which half "
    "is right: the artefacts are then the majority."
)
PEERS = ("huber", "ransac")


def _fit_peer(name: str, people: int) -> Callable[[Trajectories], Floats]:
    """scikit-learn's HuberRegressor or RANSACRegressor, participant by participant, for the first people only."""
    from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor

    def fit(logs: Trajectories) -> Floats:
        rows = logs.order.reshape(len(logs.participants), -1)[:people]
        coefficients = []
        for features, reward in zip(critic_features(logs.state, logs.action, 2)[rows], logs.reward[rows], strict=True):
            # These solvers expect features and rewards of about unit size.
            unit = float(np.median(np.abs(reward))) or 1.0
            if name == "huber":
                fitted = HuberRegressor(alpha=0.0, fit_intercept=False, max_iter=1000).fit(features, reward / unit)
            else:
                plain = LinearRegression(fit_intercept=False)
                fitted = RANSACRegressor(plain, random_state=0).fit(features, reward / unit).estimator_
            coefficients.append(unit * fitted.coef_)
        return _distances(np.stack(coefficients))

    return fit


def run_scenarios(
    replicate: int, parameters: Parameters, scenarios: Sequence[Scenario] = SCENARIOS
) -> dict[str, list[list[float]]]:
    """Everybody's errors by critic, a list for every scenario; `clean` is least squares on the clean data."""
    measures: dict[str, Callable[[Trajectories], Floats]] = {name: partial(measure_errors, critic=name) for name in CRITICS}
    peers = min(parameters["peer_participants"], parameters["participants"])
    with suppress(ImportError):
        measures |= {name: _fit_peer(name, peers) for name in PEERS if peers}
    errors: dict[str, list[list[float]]] = {name: [] for name in ("clean", "oracle", *measures)}
    clean, outliers = collect_logs(parameters["participants"], replicate, parameters["seed"])
    for scenario in scenarios:
        logs, touched = scenario.contaminate(clean, outliers)
        errors["clean"].append(measure_errors(clean, "least squares").tolist())
        errors["oracle"].append(measure_oracle(logs, touched).tolist())
        for name, measure in measures.items():
            errors[name].append(measure(logs).tolist())
    return errors


@dataclass(frozen=True, eq=False)
class CoefficientErrors:
    """Mean errors of every critic under every scenario, (scenarios, critics).

    Attributes
    ----------
    scenarios, critics
        Of the rows and columns.
    error
        Mean over people and replicates.
    relative
        To least squares on the same people's clean data.
    standard_error
        Of `relative`, over people and replicates.
    to_oracle
        Relative to the oracle.
    people
        How many are behind each critic's means.
    notes
        What the reader should know.
    """

    scenarios: tuple[Scenario, ...]
    critics: tuple[str, ...]
    error: Floats
    relative: Floats
    standard_error: Floats
    to_oracle: Floats
    people: tuple[int, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, replicates: Sequence[Mapping[str, Any]], scenarios: Sequence[Scenario], peer_participants: int
    ) -> CoefficientErrors:
        critics = tuple(name for name in replicates[0] if name != "clean")
        shape = (len(scenarios), len(critics))
        error = np.zeros(shape)
        relative = np.zeros(shape)
        standard_error = np.full(shape, np.inf)
        to_oracle = np.zeros(shape)
        for s, c in np.ndindex(shape):
            values = np.concatenate([replicate[critics[c]][s] for replicate in replicates])
            # A critic that saw fewer people is compared on those.
            count = len(replicates[0][critics[c]][s])
            clean = np.concatenate([replicate["clean"][s][:count] for replicate in replicates]).mean()
            oracle = np.concatenate([replicate["oracle"][s][:count] for replicate in replicates]).mean()
            error[s, c] = values.mean()
            relative[s, c] = values.mean() / clean
            to_oracle[s, c] = values.mean() / oracle
            if len(values) > 1:
                standard_error[s, c] = values.std(ddof=1) / np.sqrt(len(values)) / clean
        people = tuple(sum(len(replicate[name][0]) for replicate in replicates) for name in critics)
        notes = []
        if "huber" in critics:
            notes.append(f"huber and ransac are means over the first {peer_participants} people of every replicate")
        elif peer_participants:
            notes.append("scikit-learn is not installed, so huber and ransac were left out")
        names = (tuple(scenarios), critics, error, relative, standard_error, to_oracle)
        return cls(*names, people=people, notes=tuple(notes))

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """A tidy frame with a row for each scenario and critic."""
        return make_frame(self.columns, backend)

    @property
    def columns(self) -> dict[str, Any]:
        pairs = [(scenario, critic) for scenario in self.scenarios for critic in self.critics]
        people = dict(zip(self.critics, self.people, strict=True))
        return {
            "data": [str(scenario) for scenario, _ in pairs],
            "mechanism": [scenario.mechanism for scenario, _ in pairs],
            "ratio": [scenario.ratio for scenario, _ in pairs],
            "strength": [scenario.strength for scenario, _ in pairs],
            "critic": [critic for _, critic in pairs],
            "people": [people[critic] for _, critic in pairs],
            "error": self.error.ravel(),
            "relative": self.relative.ravel(),
            "standard_error": self.standard_error.ravel(),
            "to_oracle": self.to_oracle.ravel(),
        }

    def to_markdown(self) -> str:
        """The table of relative errors, with the standard error of ours and its ratio to the oracle."""
        ours = self.critics.index(OURS)
        rows = []
        for s, scenario in enumerate(self.scenarios):
            cells = [f"{value:.2f}" for value in self.relative[s]]
            cells[ours] = f"**{self.relative[s, ours]:.3f}** ± {self.standard_error[s, ours]:.3f}"
            rows.append([str(scenario), *cells, f"{self.to_oracle[s, ours]:.3f}"])
        return "\n".join(markdown_table(["data", *self.critics, f"{OURS} / oracle"], rows))

    def list_limits(self) -> list[Limit]:
        """Of the high-breakdown critic under every scenario."""
        ours = self.critics.index(OURS)
        limits = []
        for s, scenario in enumerate(self.scenarios):
            is_clean = scenario.mechanism == "clean"
            against = "least squares on clean data" if is_clean else "oracle"
            ratio = float((self.relative if is_clean else self.to_oracle)[s, ours])
            limit = S5_LIMITS.get(str(scenario), S5_LIMITS.get(scenario.mechanism))
            limits.append(Limit(f"error relative to {against}", str(scenario), ratio, limit))
        return limits


def coefficient_errors(
    scenarios: Sequence[Scenario] = SCENARIOS,
    *,
    participants: int = 200,
    replicates: int = 5,
    seed: int = 2025,
    peer_participants: int = 40,
) -> CoefficientErrors:
    """The S5 table. scikit-learn's critics fit one participant at a time, so they get the first `peer_participants`."""
    if participants < 1 or replicates < 1 or not scenarios:
        raise InputError("S5 needs at least one participant, one replicate and one scenario")
    parameters = {"participants": participants, "peer_participants": peer_participants, "seed": seed}
    errors = [run_scenarios(replicate, parameters, scenarios) for replicate in range(replicates)]
    return CoefficientErrors.of(errors, scenarios, min(peer_participants, participants))


def log_normal_logs(logs: Trajectories, seed: int | np.random.SeedSequence) -> Trajectories:
    """The same decision points with rewards whose noise β7 + ϱ is log-normal, of the same mean and variance (skewness 4)."""
    middle = BETA[6]
    width = np.sqrt(np.log(1 + (REWARD_NOISE / middle) ** 2))
    normal = np.random.default_rng(seed).standard_normal(len(logs))
    noise = middle * np.exp(width * normal - width**2 / 2) - middle
    expected = critic_features(logs.state, logs.action, 2) @ HeartSteps.critic_coef
    return logs.with_values(reward=expected + BETA[12] * noise)


class SkewedRow(NamedTuple):
    """A critic on skewed but clean rewards."""

    critic: str
    bias: float
    """Mean error of the mean treatment effect, in steps."""
    standard_error: float
    """Of that mean over people and replicates."""
    deviation: float
    """Standard deviation of one participant's estimate over people and replicates."""
    decision_points_removed: float
    reward_removed: float
    """Share of the total reward."""


def skewed_rewards(*, participants: int = 200, replicates: int = 5, seed: int = 2025) -> list[SkewedRow]:
    """Bias of the mean treatment effect, and what is removed, when rewards are log-normal and nothing is wrong."""
    rows = []
    problems = []
    for replicate in range(replicates):
        clean, _ = collect_logs(participants, replicate, seed)
        problems.append(log_normal_logs(clean, np.random.SeedSequence(seed, spawn_key=(replicate, 2))))
    for name in ("least squares", "capped", OURS):
        errors = []
        points_removed = []
        reward_removed = []
        for logs in problems:
            fitted = CRITICS[name]().fit(logs)
            means = logs.state[logs.order].reshape(participants, -1, logs.state.shape[1]).mean(axis=1)
            average = np.column_stack([np.ones(participants), means])
            errors.append(((fitted.critic_coef_ - HeartSteps.critic_coef)[:, 4:] * average).sum(axis=1))
            points_removed.append(1 - fitted.weights_.mean())
            reward_removed.append(1 - (fitted.weights_ * logs.reward).sum() / logs.reward.sum())
        error = np.concatenate(errors)
        deviation = float(error.std(ddof=1))
        shares = (float(np.mean(points_removed)), float(np.mean(reward_removed)))
        rows.append(SkewedRow(name, float(error.mean()), deviation / len(error) ** 0.5, deviation, *shares))
    return rows


LINES = {
    "oracle": (figures.GREY, "--", ""),
    "least squares": (figures.ORANGE, "-", "s"),
    "kalman": (figures.NAVY, "-", "v"),
    "capped": (figures.BROWN, "-", "D"),
    "huber": (figures.PURPLE, ":", "x"),
    "ransac": (figures.GREEN, ":", "+"),
    OURS: (figures.BLUE, "-", "o"),
}


def draw_scenarios(table: CoefficientErrors) -> Figure:
    """Coefficient error against the share of decision points touched, a panel for each mechanism; bars: 95 % intervals."""
    known = {scenario.mechanism for scenario in table.scenarios}
    mechanisms = [name for name in ("sensor", "prompted", "careless") if name in known]
    figure, axes = figures.new_figure(1, len(mechanisms), width=11, height=4.2, sharey=True, squeeze=False)
    for panel, mechanism in zip(axes[0], mechanisms, strict=True):
        rows = [
            s
            for s, scenario in enumerate(table.scenarios)
            if scenario.mechanism in ("clean", mechanism) and scenario.strength == 5
        ]
        share = [100 * table.scenarios[s].ratio for s in rows]
        for name, (colour, style, marker) in LINES.items():
            if name in table.critics:
                c = table.critics.index(name)
                look = {"color": colour, "linestyle": style, "marker": marker, "markersize": 4, "label": name}
                panel.errorbar(share, table.relative[rows, c], yerr=1.96 * table.standard_error[rows, c], **look)
        _scale_errors(panel, mechanism)
    axes[0, 0].set_ylabel("coefficient error\n(least squares on clean data = 1)", color=figures.INK)
    figures.add_legend(figure, axes[0, 0], columns=len(LINES))
    return figure


def _scale_errors(panel: Any, title: str) -> None:
    panel.set_yscale("log")
    panel.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    panel.minorticks_off()
    figures.label_axes(panel, x="decision points touched (%)", y="", title=title)


def report_scenarios(replicates: list[Any], parameters: Parameters) -> Report:
    """S5 over all replicates."""
    peers = min(parameters["peer_participants"], parameters["participants"])
    table = CoefficientErrors.of(replicates, SCENARIOS, peers)
    sizes = {name: parameters[name] for name in ("participants", "replicates", "seed")}
    skewed = skewed_rewards(**sizes)
    notes = [*table.notes, BEYOND]
    lines = [
        "**S5: mean error ‖ŵ − w*‖ relative to least squares on the clean data**",
        "",
        "The nine methods have the critics `least squares` (plain), `hampel` and `kalman` (filter-) and `capped` (ro-).",
        "",
        table.to_markdown(),
        "",
        *(f"{note[:1].upper()}{note[1:].rstrip('.')}.\n" for note in notes),
        "**Skewed but clean rewards (log-normal noise): the estimated mean treatment effect**",
        "",
        *markdown_table(
            ["critic", "bias (steps)", "standard error of one participant", "decision points removed", "reward removed"],
            [
                [
                    row.critic,
                    f"{row.bias:.1f} ± {row.standard_error:.1f}",
                    f"{row.deviation:.0f}",
                    f"{100 * row.decision_points_removed:.1f} %",
                    f"{100 * row.reward_removed:.1f} %",
                ]
                for row in skewed
            ],
        ),
        *limits_table(table.list_limits()),
    ]
    return Report(
        columns=table.columns,
        figure=draw_scenarios(table),
        description="Coefficient error by share of decision points touched",
        page="\n".join(lines) + "\n",
        limits=table.list_limits(),
        results={"skewed_rewards": [row._asdict() for row in skewed], "notes": notes},
    )


S5 = Experiment(
    name="s5",
    title="S5: error of the high-breakdown critic",
    parameters={"participants": 200, "replicates": 5, "peer_participants": 40},
    quick={"participants": 60, "replicates": 2, "peer_participants": 5},
    run=run_scenarios,
    report=report_scenarios,
)


# S6


class Artefact(NamedTuple):
    """What is put into the logs, and the limit of `high-breakdown` after the screen at 20 %, relative to the oracle."""

    name: str
    how: dict[str, Any]
    limit: float | None = None

    @property
    def blind(self) -> bool:
        """Whether the artefact knows nothing of the action."""
        return "after" not in self.how


ARTEFACTS = (
    Artefact("reward 0, scattered", {"mechanism": "nonwear", "values": "reward"}),
    Artefact("reward 0, in runs of 20", {"mechanism": "nonwear", "values": "reward", "run_length": 20}, 1.15),
    Artefact("state and reward 0, in runs of 20", {"mechanism": "nonwear", "run_length": 20}, 1.10),
    Artefact("reward × 10 (unit)", {"mechanism": "unit"}, 1.10),
    Artefact("reward stuck, in runs of 20", {"mechanism": "stuck", "run_length": 20}, 1.10),
    Artefact("reward 9999 (code)", {"mechanism": "code", "strength": 9999}, 1.05),
    Artefact("reward 0 after nothing only", {"mechanism": "nonwear", "values": "reward", "after": "nothing"}),
)
RATIOS = (0.1, 0.2, 0.3)
JUDGED_AT = 0.2
MOST_WRONG = 0.003
"""Of clean values at most this share may be flagged."""
LEAST_UNSAFE = 0.95
"""Of studies whose zeros come only after nothing was sent at least this share must be called unsafe."""


def run_artefacts(replicate: int, parameters: Parameters, ratios: Sequence[float] = RATIOS) -> list[dict[str, Any]]:
    """One simulated study under every artefact and ratio; the first row is the clean one."""
    clean, outliers = collect_logs(parameters["participants"], replicate, parameters["seed"])
    rows = [_measure_artefact("clean", 0.0, clean, clean, np.zeros(len(clean), dtype=bool))]
    for artefact in ARTEFACTS:
        for ratio in ratios:
            dirty = contaminate(clean, ratio=ratio, seed=outliers, **artefact.how)
            rows.append(_measure_artefact(artefact.name, ratio, clean, dirty.logs, dirty.touched))
    return rows


def _measure_artefact(
    name: str, ratio: float, clean: Trajectories, logs: Trajectories, touched: NDArray[np.bool_]
) -> dict[str, Any]:
    screened = screen(logs)
    before = np.column_stack([logs.state, logs.reward])
    flagged = np.isnan(np.column_stack([screened.logs.state, screened.logs.reward])) & ~np.isnan(before)
    wrong = before != np.column_stack([clean.state, clean.reward])
    return {
        "artefact": name,
        "ratio": ratio,
        "oracle": float(measure_oracle(logs, touched).mean()),
        "plain": {critic: float(measure_errors(logs, critic).mean()) for critic in CRITICS},
        "screened": {critic: float(measure_errors(screened.logs, critic).mean()) for critic in CRITICS},
        "wrong_flagged": float((flagged & wrong).sum() / max(wrong.sum(), 1)),
        "right_flagged": float((flagged & ~wrong).sum() / max((~wrong).sum(), 1)),
        "unsafe": not screened.blind,
    }


class ArtefactRow(NamedTuple):
    """Means over studies; errors are relative to least squares on clean data."""

    artefact: str
    ratio: float
    oracle: float
    plain: dict[str, float]
    screened: dict[str, float]
    to_oracle: float
    """`high-breakdown` after the screen over the oracle."""
    standard_error: float
    """Of `to_oracle`, over studies."""
    wrong_flagged: float
    """Share of the wrong values that the screen flagged."""
    right_flagged: float
    """Share of the right values that the screen flagged."""
    unsafe: float
    """Share of studies in which the flagged share differed by action."""


def summarise_artefacts(studies: Sequence[Sequence[dict[str, Any]]]) -> list[ArtefactRow]:
    """One row for each artefact and ratio."""
    clean = float(np.mean([points[0]["plain"]["least squares"] for points in studies]))
    rows = []
    for points in zip(*studies, strict=True):
        ours = np.array([point["screened"][OURS] for point in points])
        oracle = np.array([point["oracle"] for point in points])
        ratio = float(ours.mean() / oracle.mean())
        # The standard error of a ratio of means, from how each study departs from it.
        departure = (ours - ratio * oracle) / oracle.mean()
        error = float(departure.std(ddof=1) / np.sqrt(len(points))) if len(points) > 1 else float("inf")
        rows.append(
            ArtefactRow(
                artefact=points[0]["artefact"],
                ratio=points[0]["ratio"],
                oracle=float(oracle.mean()) / clean,
                plain=_average_errors([point["plain"] for point in points], clean),
                screened=_average_errors([point["screened"] for point in points], clean),
                to_oracle=ratio,
                standard_error=error,
                wrong_flagged=float(np.mean([point["wrong_flagged"] for point in points])),
                right_flagged=float(np.mean([point["right_flagged"] for point in points])),
                unsafe=float(np.mean([point["unsafe"] for point in points])),
            )
        )
    return rows


def _average_errors(errors: Sequence[Mapping[str, float]], unit: float) -> dict[str, float]:
    return {critic: float(np.mean([error[critic] for error in errors])) / unit for critic in CRITICS}


def list_artefact_limits(rows: Sequence[ArtefactRow]) -> list[Limit]:
    """The screen's limits at 20 %, and what came out."""
    at = {row.artefact: row for row in rows if row.ratio in (0.0, JUDGED_AT)}
    limits = [Limit("clean values flagged", "clean", at["clean"].right_flagged, MOST_WRONG)]
    for artefact in ARTEFACTS:
        row = at[artefact.name]
        if not artefact.blind:
            limits.append(Limit("studies called unsafe", artefact.name, row.unsafe, LEAST_UNSAFE, at_most=False))
        elif artefact.limit is not None:
            limits.append(Limit(f"{OURS} after the screen / oracle", artefact.name, row.to_oracle, artefact.limit))
    return limits


def draw_artefacts(rows: Sequence[ArtefactRow]) -> Figure:
    """Coefficient error against the share touched, a panel for each artefact; dashed without the screen, drawn with it."""
    clean = next(row for row in rows if row.artefact == "clean")
    figure, axes = figures.new_figure(2, 4, width=12, height=6.2, sharey=True)
    panels = axes.ravel()
    for panel, artefact in zip(panels, ARTEFACTS, strict=False):
        curve = [clean, *(row for row in rows if row.artefact == artefact.name)]
        share = [100 * row.ratio for row in curve]
        panel.plot(share, [row.oracle for row in curve], color=figures.GREY, linestyle=":", label="oracle")
        for critic in ("least squares", "kalman", "capped", OURS):
            colour = LINES[critic][0]
            panel.plot(share, [row.plain[critic] for row in curve], color=colour, linestyle="--", linewidth=1)
            panel.plot(share, [row.screened[critic] for row in curve], color=colour, marker="o", markersize=3, label=critic)
        _scale_errors(panel, artefact.name)
    for panel in panels[len(ARTEFACTS) :]:
        panel.set_axis_off()
    for row_of_panels in axes:
        row_of_panels[0].set_ylabel("coefficient error\n(least squares on clean data = 1)")
    shown = panels[0].get_legend_handles_labels()
    panels[-1].legend(*shown, loc="center", title="dashed: without the screen", **figures.LEGEND)
    return figure


def report_artefacts(studies: list[Any], parameters: Parameters) -> Report:
    """S6 over all studies."""
    rows = summarise_artefacts(studies)
    table = [
        [
            row.artefact,
            f"{100 * row.ratio:g} %",
            f"{row.oracle:.2f}",
            *(f"{row.plain[critic]:.2f} → {row.screened[critic]:.2f}" for critic in CRITICS),
            f"{row.to_oracle:.3f} ± {row.standard_error:.3f}",
            f"{100 * row.wrong_flagged:.0f} %",
            f"{100 * row.unsafe:.0f} %",
        ]
        for row in rows
    ]
    header = ["artefact", "touched", "oracle", *CRITICS, f"{OURS} after the screen / oracle", "flagged", "unsafe"]
    lines = [
        "**S6: mean error ‖ŵ − w*‖ relative to least squares on the clean data, without → with the screen**",
        "",
        f"{parameters['replicates']} studies of {parameters['participants']} people × {DECISION_POINTS} decision points.",
        "",
        *markdown_table(header, table),
        "",
        "*flagged*: share of the wrong values that the screen flagged. *unsafe*: share of studies in which the flagged "
        "share differed by action; for artefacts that know nothing of the action these are false alarms.",
        *limits_table(list_artefact_limits(rows)),
    ]
    tidy = [
        (row.artefact, row.ratio, critic, screened, error)
        for row in rows
        for screened, errors in ((False, {"oracle": row.oracle, **row.plain}), (True, row.screened))
        for critic, error in errors.items()
    ]
    names = ("artefact", "ratio", "critic", "screened", "relative_error")
    return Report(
        columns=dict(zip(names, map(list, zip(*tidy, strict=True)), strict=True)),
        figure=draw_artefacts(rows),
        description="Coefficient error by artefact and share touched",
        page="\n".join(lines) + "\n",
        limits=list_artefact_limits(rows),
        results={"rows": [row._asdict() for row in rows]},
    )


S6 = Experiment(
    name="s6",
    title="S6: artefacts of devices, after the screen",
    parameters={"participants": 100, "replicates": 20},
    quick={"participants": 20, "replicates": 2},
    run=run_artefacts,
    report=report_artefacts,
)
