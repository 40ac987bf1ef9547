"""S5 and S6: how far coefficients are from the truth when some of the data are wrong.

The simulator is HeartSteps. An error is ‖ŵ − w*‖ of one participant's critic. S5 puts in outliers and compares critics with
least squares on the clean data and with an oracle: least squares on the untouched decision points only. S6 puts in the
artefacts of devices and questionnaires and compares critics with and without the screen.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.experiments import engine
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
    "least squares": partial(engine.make_method, "linucb"),
    "hampel": partial(engine.make_method, "filter-linucb"),
    "kalman": partial(engine.make_method, "filter-linucb", filter="kalman"),
    "capped": partial(engine.make_method, "ro-linucb"),
    "high-breakdown": partial(engine.make_method, "hb-linucb"),
}
"""By the critic: the decision rule changes no coefficient, and LinUCB's is the quickest."""
OURS = "high-breakdown"
PEERS = ("huber", "ransac")
SCREENED = {critic: f"{critic}, screened" for critic in CRITICS}
LINES = {
    "oracle": (figures.GREY, "--", ""),
    "least squares": (figures.ORANGE, "-", "s"),
    "kalman": (figures.NAVY, "-", "v"),
    "capped": (figures.BROWN, "-", "D"),
    "huber": (figures.PURPLE, ":", "x"),
    "ransac": (figures.GREEN, ":", "+"),
    OURS: (figures.BLUE, "-", "o"),
}


class Scene(NamedTuple):
    """Wrong values in a share of the decision points, and the limit of `high-breakdown` there."""

    kind: str
    ratio: float = 0.0
    strength: float | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - a field of a tuple, never changed
    """Of `contaminate`, without which the kind is the mechanism."""
    limit: float | None = None
    """Relative to least squares on the clean data for clean data, else to the oracle."""

    @property
    def data(self) -> str:
        share = f" {100 * self.ratio:g} %" if self.ratio else ""
        return self.kind + share + (f", ν = {self.strength:g}" if self.strength else "")

    def contaminate(self, clean: Trajectories, seed: np.random.SeedSequence) -> tuple[Trajectories, NDArray[np.bool_]]:
        """The logs with the wrong values, and which rows were touched."""
        if self.kind == "clean":
            return clean, np.zeros(len(clean), dtype=bool)
        options = {"mechanism": self.kind, "strength": self.strength, **self.options}
        dirty = contaminate(clean, ratio=self.ratio, seed=seed, **options)
        return dirty.logs, dirty.touched


def collect_logs(participants: int, replicate: int, seed: int) -> tuple[Trajectories, np.random.SeedSequence]:
    """Clean logs of one replicate under a coin, and the seed of its outliers."""
    dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(replicate, use)) for use in range(2))
    simulator = HeartSteps(participants=participants)
    return simulator.collect(coin(2), decision_points=DECISION_POINTS, seed=dynamics), outliers


def measure_errors(logs: Trajectories, critic: str) -> list[float]:
    """Everybody's distance from the true coefficients."""
    coefficients = CRITICS[critic]().fit(logs).critic_coef_
    return [float(error) for error in np.linalg.norm(coefficients - HeartSteps.critic_coef, axis=1)]


def measure_oracle(logs: Trajectories, touched: NDArray[np.bool_]) -> list[float]:
    """The same of least squares without exactly the decision points that were touched."""
    return measure_errors(logs.with_values(outcome=np.where(touched, np.nan, logs.outcome)), "least squares")


Measure = Callable[[Trajectories, Trajectories, engine.Parameters], engine.Row]


def run_scenes(replicate: int, parameters: engine.Parameters, scenes: Sequence[Scene], measure: Measure) -> list[engine.Row]:
    """Everybody's errors with every critic, a row for each scene; `clean` is least squares on the clean data.

    `measure(logs, clean, parameters)` gives further columns.
    """
    clean, outliers = collect_logs(parameters["participants"], replicate, parameters["seed"])
    baseline = measure_errors(clean, "least squares")
    rows = []
    for scene in scenes:
        logs, touched = scene.contaminate(clean, outliers)
        errors = {"clean": baseline, "oracle": measure_oracle(logs, touched)}
        errors |= {critic: measure_errors(logs, critic) for critic in CRITICS}
        keys = {"data": scene.data, "kind": scene.kind, "ratio": scene.ratio}
        rows.append({**keys, **errors, **measure(logs, clean, parameters)})
    return rows


def summarise_errors(rows: list[engine.Row]) -> list[engine.Row]:
    """A row for each scene and critic, over all people and replicates.

    `relative` is the mean error relative to least squares on the clean data of the same people, with its `standard_error`
    over people; `to_oracle` is relative to the oracle, with its `to_oracle_error` over replicates.
    """
    columns = {"oracle": ("oracle", False), **{name: (name, False) for name in (*CRITICS, *PEERS)}}
    columns |= {column: (critic, True) for critic, column in SCREENED.items()}
    summaries = []
    for (data, kind, ratio), values in engine.group_rows(rows, "data", "kind", "ratio").items():
        for column in (column for column in columns if column in values):
            critic, screened = columns[column]
            errors = values[column]
            # A critic that saw fewer people is compared on those people only.
            clean = values["clean"][:, : errors.shape[1]].mean()
            oracle = values["oracle"][:, : errors.shape[1]].mean(axis=1)
            to_oracle = errors.mean() / oracle.mean()
            # The standard error of a ratio of means, from the departure of each replicate.
            departure = (errors.mean(axis=1) - to_oracle * oracle) / oracle.mean()
            summaries.append(
                {
                    **{"data": data, "kind": kind, "ratio": ratio, "critic": critic, "screened": screened},
                    "people": errors.size,
                    "error": float(errors.mean()),
                    "relative": float(errors.mean() / clean),
                    "standard_error": float(engine.standard_error(errors.ravel()) / clean),
                    "to_oracle": float(to_oracle),
                    "to_oracle_error": engine.standard_error(departure),
                }
            )
    return summaries


def draw_errors(rows: Sequence[engine.Row], shape: tuple[int, int], width: float, height: float) -> "Figure":
    """Coefficient error against the share of decision points touched, a panel for each kind; bars are 95 % intervals.

    Where data were also screened, thin dashed lines are without the screen.
    """
    figure, axes = figures.new_figure(*shape, width=width, height=height, sharey=True, squeeze=False)
    with_screen = any(row["screened"] for row in rows)
    panels = list(axes.ravel())
    for kind in dict.fromkeys(row["kind"] for row in rows if row["kind"] != "clean"):
        panel = panels.pop(0)
        shown = [row for row in rows if row["kind"] in ("clean", kind)]
        for (critic, (colour, style, marker)), screened in product(LINES.items(), (False, True)):
            curve = [row for row in shown if row["critic"] == critic and row["screened"] == screened]
            look: dict[str, Any] = {"linestyle": style, "marker": marker, "label": critic}
            if with_screen and not screened and critic != "oracle":
                look = {"linestyle": "--", "linewidth": 1}
            shares = [100 * row["ratio"] for row in curve]
            errors = [row["relative"] for row in curve]
            bars = None if with_screen else [1.96 * row["standard_error"] for row in curve]
            if curve:
                panel.errorbar(shares, errors, yerr=bars, color=colour, markersize=4, **look)
        panel.set_yscale("log")
        panel.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        panel.minorticks_off()
        figures.label_axes(panel, x="decision points touched (%)", y="", title=kind)
    for panel in panels:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "dashed: without the screen", ha="center", color=figures.INK)
    for first in axes[:, 0]:
        first.set_ylabel("coefficient error\n(least squares on clean data = 1)", color=figures.INK)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(LINES), **figures.LEGEND)
    return figure


# S5

SCENARIOS = (
    Scene("clean", limit=1.04),
    *(Scene("sensor", ratio, limit=1.05) for ratio in (0.04, 0.1, 0.2, 0.3)),
    Scene("sensor", 0.3, 10.0, limit=1.05),
    *(Scene("prompted", ratio, limit=limit) for ratio, limit in ((0.1, 1.06), (0.2, 1.30))),
    *(Scene("careless", ratio) for ratio in (0.1, 0.2, 0.3)),
)
BEYOND = (
    "Under `prompted` outliers only treated decision points are touched. Beyond half of them no method can know which half "
    "is right: the artefacts are then the majority."
)


def measure_peers(logs: Trajectories, clean: Trajectories, parameters: engine.Parameters) -> engine.Row:
    """Errors of scikit-learn's HuberRegressor and RANSACRegressor, which fit one participant at a time: the first few."""
    try:
        from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor
    except ImportError:
        return {}
    errors: dict[str, list[float]] = {}
    rows = logs.order.reshape(len(logs.participants), -1)[: parameters["peer_participants"]]
    for features, reward in zip(critic_features(logs.state, logs.action, 2)[rows], logs.outcome[rows], strict=True):
        # These solvers expect features and rewards of about unit size.
        unit = float(np.median(np.abs(reward))) or 1.0
        huber = HuberRegressor(alpha=0.0, fit_intercept=False, max_iter=1000).fit(features, reward / unit)
        ransac = RANSACRegressor(LinearRegression(fit_intercept=False), random_state=0).fit(features, reward / unit)
        for name, fitted in zip(PEERS, (huber, ransac.estimator_), strict=True):
            distance = np.linalg.norm(unit * fitted.coef_ - HeartSteps.critic_coef, axis=0)
            errors.setdefault(name, []).append(float(distance))
    return dict(errors)


def log_normal_logs(logs: Trajectories, seed: int | np.random.SeedSequence) -> Trajectories:
    """The same decision points with rewards whose noise β7 + ϱ is log-normal, of the same mean and variance (skewness 4)."""
    middle = BETA[6]
    width = np.sqrt(np.log(1 + (REWARD_NOISE / middle) ** 2))
    normal = np.random.default_rng(seed).standard_normal(len(logs))
    noise = middle * np.exp(width * normal - width**2 / 2) - middle
    expected = critic_features(logs.state, logs.action, 2) @ HeartSteps.critic_coef
    return logs.with_values(outcome=expected + BETA[12] * noise)


def skewed_rewards(*, participants: int = 200, replicates: int = 5, seed: int = 2025) -> list[engine.Row]:
    """Errors in the mean treatment effect, and shares removed, when rewards are log-normal and nothing is wrong.

    A row for each critic: the `bias` in steps with its `standard_error` over people and replicates, the standard
    `deviation` of one participant's estimate, and the shares of decision points and of the total reward removed.
    """
    rows = []
    for replicate in range(replicates):
        clean, _ = collect_logs(participants, replicate, seed)
        logs = log_normal_logs(clean, np.random.SeedSequence(seed, spawn_key=(replicate, 2)))
        means = logs.state[logs.order].reshape(participants, -1, logs.state.shape[1]).mean(axis=1)
        average = np.column_stack([np.ones(participants), means])
        for critic in ("least squares", "capped", OURS):
            fitted = CRITICS[critic]().fit(logs)
            error = ((fitted.critic_coef_ - HeartSteps.critic_coef)[:, 4:] * average).sum(axis=1)
            points_removed = 1 - fitted.weights_.mean()
            reward_removed = 1 - (fitted.weights_ * logs.outcome).sum() / logs.outcome.sum()
            rows.append({"critic": critic, "error": error, "points": points_removed, "reward": reward_removed})
    return [
        {
            "critic": critic,
            "bias": float(values["error"].mean()),
            "standard_error": engine.standard_error(values["error"].ravel()),
            "deviation": float(values["error"].std(ddof=1)),
            "decision_points_removed": float(values["points"].mean()),
            "reward_removed": float(values["reward"].mean()),
        }
        for (critic,), values in engine.group_rows(rows, "critic").items()
    ]


def report_scenarios(rows: list[engine.Row], parameters: engine.Parameters) -> engine.Report:
    """S5 over all replicates."""
    table = summarise_errors(rows)
    scenes: dict[str, dict[str, engine.Row]] = {}
    for row in table:
        scenes.setdefault(row["data"], {})[row["critic"]] = row
    limits = []
    for scene in SCENARIOS:
        measure, key = ("oracle", "to_oracle") if scene.ratio else ("least squares on clean data", "relative")
        limits.append(engine.Limit(f"error relative to {measure}", scene.data, scenes[scene.data][OURS][key], scene.limit))
    notes = [BEYOND]
    peers = min(parameters["peer_participants"], parameters["participants"])
    if PEERS[0] in scenes["clean"]:
        notes.insert(0, f"Huber and ransac are means over the first {peers} people of every replicate.")
    elif peers:
        notes.insert(0, "scikit-learn is not installed, so huber and ransac were left out.")
    skewed = skewed_rewards(**{name: parameters[name] for name in ("participants", "replicates", "seed")})
    return engine.Report(
        rows=table,
        figure=draw_errors([row for row in table if "ν" not in row["data"]], (1, 3), 11, 4.2),
        description="Coefficient error by share of decision points touched",
        page=engine.render_page(
            "s5.md", scenes=scenes, critics=list(scenes["clean"]), ours=OURS, notes=notes, skewed=skewed
        ),
        limits=limits,
        results={"skewed_rewards": skewed, "notes": notes},
    )


S5 = engine.Experiment(
    name="s5",
    title="S5: error of the high-breakdown critic",
    parameters={"participants": 200, "replicates": 5, "peer_participants": 40},
    quick={"participants": 60, "replicates": 2, "peer_participants": 5},
    run=partial(run_scenes, scenes=SCENARIOS, measure=measure_peers),
    report=report_scenarios,
)


# S6

NONWEAR = {"mechanism": "nonwear", "values": "outcome"}
AFTER_NOTHING = "reward 0 after nothing only"
ARTEFACTS: dict[str, tuple[dict[str, Any], float | None]] = {
    "reward 0, scattered": (NONWEAR, None),
    "reward 0, in runs of 20": ({**NONWEAR, "run_length": 20}, 1.15),
    "state and reward 0, in runs of 20": ({"mechanism": "nonwear", "run_length": 20}, 1.10),
    "reward × 10 (unit)": ({"mechanism": "unit"}, 1.10),
    "reward stuck, in runs of 20": ({"mechanism": "stuck", "run_length": 20}, 1.10),
    "reward 9999 (code)": ({"mechanism": "code", "strength": 9999}, 1.05),
    AFTER_NOTHING: ({**NONWEAR, "after": "nothing"}, None),
}
"""Options of `contaminate`, and the limit at 20 % of `high-breakdown` after the screen relative to the oracle."""
JUDGED_AT = 0.2
ARTEFACT_SCENES = (
    Scene("clean"),
    *(Scene(kind, ratio, options=ARTEFACTS[kind][0]) for kind in ARTEFACTS for ratio in (0.1, JUDGED_AT, 0.3)),
)
MOST_WRONG = 0.003
"""The largest share of clean values that may be flagged."""
LEAST_UNSAFE = 0.95
"""The smallest share of studies called unsafe when zeros come only after nothing was sent."""


def measure_screen(logs: Trajectories, clean: Trajectories, parameters: engine.Parameters) -> engine.Row:
    """Errors after the screen, the shares of wrong and of right values flagged, and whether it called the study unsafe."""
    screened = screen(logs)
    before = np.column_stack([logs.state, logs.outcome])
    flagged = np.isnan(np.column_stack([screened.logs.state, screened.logs.outcome])) & ~np.isnan(before)
    wrong = before != np.column_stack([clean.state, clean.outcome])
    return {
        **{column: measure_errors(screened.logs, critic) for critic, column in SCREENED.items()},
        "wrong_flagged": float((flagged & wrong).sum() / max(wrong.sum(), 1)),
        "right_flagged": float((flagged & ~wrong).sum() / max((~wrong).sum(), 1)),
        "unsafe": not screened.blind,
    }


def report_artefacts(rows: list[engine.Row], parameters: engine.Parameters) -> engine.Report:
    """S6 over all studies."""
    table = summarise_errors(rows)
    errors = {(row["data"], row["critic"], row["screened"]): row for row in table}
    flags = engine.group_rows(rows, "data", "kind", "ratio")
    wrongly_flagged = float(flags["clean", "clean", 0.0]["right_flagged"].mean())
    limits = [engine.Limit("clean values flagged", "clean", wrongly_flagged, MOST_WRONG)]
    for data, kind, ratio in flags:
        limit = ARTEFACTS[kind][1] if ratio == JUDGED_AT else None
        if limit is not None:
            to_oracle = errors[data, OURS, True]["to_oracle"]
            limits.append(engine.Limit(f"{OURS} after the screen / oracle", kind, to_oracle, limit))
        elif (kind, ratio) == (AFTER_NOTHING, JUDGED_AT):
            unsafe = float(flags[data, kind, ratio]["unsafe"].mean())
            limits.append(engine.Limit("studies called unsafe", kind, unsafe, LEAST_UNSAFE, at_most=False))
    context = {"errors": errors, "flags": flags, "critics": list(CRITICS), "ours": OURS}
    return engine.Report(
        rows=table,
        figure=draw_errors(table, (2, 4), 12, 6.2),
        description="Coefficient error by artefact and share touched",
        page=engine.render_page("s6.md", parameters=parameters, decision_points=DECISION_POINTS, **context),
        limits=limits,
        results={"rows": table},
    )


S6 = engine.Experiment(
    name="s6",
    title="S6: artefacts of devices, after the screen",
    parameters={"participants": 100, "replicates": 20},
    quick={"participants": 20, "replicates": 2},
    run=partial(run_scenes, scenes=ARTEFACT_SCENES, measure=measure_screen),
    report=report_artefacts,
)
