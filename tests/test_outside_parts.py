"""Parts from outside the package go wherever the built-in ones go."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow.csv
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import surefoot as sf
from surefoot.audit import audit
from surefoot.cli import app
from surefoot.data.column_kinds import KINDS, StateValues, VariableKind, register_kind
from surefoot.evaluation import ESTIMATORS, Estimator, evaluate, register_estimator
from surefoot.explain import explain
from surefoot.learning.critics import CRITICS, Critic, Removal, RemovingCritic, fit_ridge, register_critic
from surefoot.learning.filters import FILTERS, Filter, register_filter
from surefoot.learning.penalties import PENALTY_UNITS, AbsoluteUnits
from surefoot.learning.pooling import POOLINGS, Person, register_pooling
from surefoot.learning.rules import RULE_LEARNERS, RuleLearner, register_rule_learner
from surefoot.numerics.masked_quantiles import scaled_mad
from surefoot.policies.rules import Fixed
from surefoot.service.trial.states import context_to_state
from surefoot.study.draft import draft_study
from tests.studies import many

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "accb"
parameters = { critic = "shears" }
"""


@dataclass(frozen=True)
class Shears(RemovingCritic):
    """Ridge on the decision points whose reward is below a limit."""

    name: ClassVar[str] = "shears"
    title: ClassVar[str] = "the toy critic"
    removal: ClassVar[Removal] = Removal("the shears", unit="shears", plural=True, because="for being large")
    limit: float = 4000.0

    def fit(self, batch):
        kept = np.where(batch.reward < self.tau * self.limit, batch.weights, 0.0)
        return fit_ridge(batch.features, batch.reward, kept, penalty=batch.penalty, arms=batch.arms)


@dataclass(frozen=True)
class Huber(Critic):
    """Weighted least squares with u = min(1, δ σ / |residual|): a large residual counts less, and none is removed."""

    name: ClassVar[str] = "huber"
    title: ClassVar[str] = "Huber's critic"
    delta: float = 1.345

    def check_parameters(self):
        super().check_parameters()
        if self.delta <= 0:
            raise sf.InputError(f"delta is {self.delta}; it must be above 0")

    def fit(self, batch):
        weights = batch.weights
        for _ in range(10):
            fit = fit_ridge(batch.features, batch.reward, weights, penalty=batch.penalty, arms=batch.arms)
            residuals = fit.find_residuals(batch.features, batch.reward)
            scale = scaled_mad(residuals, batch.weights > 0, np.zeros(len(residuals)))[:, None]
            weights = batch.weights * np.minimum(1.0, self.delta * scale / np.maximum(np.abs(residuals), 1e-12))
        return replace(fit, weights=weights)


class Agreement(Estimator):
    """The mean reward where the policy is at least as likely to do what was done."""

    name: ClassVar[str] = "agreement"
    label: ClassVar[str] = "where they agree"

    def compute_scores(self, judged):
        agrees = (judged.ratio >= 1).astype(float)
        return agrees * judged.reward, agrees


class MoreRobust(Estimator):
    """MRDR (Farajtabar, Chow and Ghavamzadeh 2018): doubly robust with the q̂ that minimises its variance for the policy.

    For a deterministic policy q̂ minimises Σ ρ² (1 − b) (r − q̂(s, a))².
    """

    name: ClassVar[str] = "mrdr"
    label: ClassVar[str] = "more robust doubly robust"

    def compute_scores(self, judged):
        expected = judged.expect_rewards(judged.ratio**2 * (1 - judged.logged_probability))
        return judged.score_doubly_robust(expected), np.ones_like(judged.reward)


@pytest.fixture
def shears():
    yield register_critic(Shears)
    CRITICS.unregister("shears")


@pytest.fixture
def huber():
    yield register_critic(Huber)
    CRITICS.unregister("huber")


@pytest.fixture(scope="module")
def logs():
    return many(1, 12, 60, seed=3)[0][0]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("pooling", ["person", "all", "partial"])
def test_a_critic_goes_through_fit_audit_explain_and_evaluate(shears, logs, pooling):
    fitted = sf.method("accb", critic="shears", pooling=pooling).fit(logs)
    assert_array_equal(fitted.weights_, (logs.outcome < 4000).astype(float))
    assert fitted.critic_ == Shears()
    assert fitted.critic_coef_[0, 0] != sf.method("accb", pooling=pooling).fit(logs).critic_coef_[0, 0]
    found = audit(fitted)
    removed = (logs.outcome >= 4000).mean()
    assert f"the shears remove {100 * removed:.1f} % of 720 decision points, for being large" in (
        found.check("share removed").reason
    )
    taus = [row.tau for row in found.sensitivity]
    assert taus == [0.5, 0.75, 1.0, 1.5, 2.0, 4.0, np.inf]
    assert_allclose([row.removed for row in found.sensitivity], [(logs.outcome >= 4000 * tau).mean() for tau in taus])
    explanation = explain(fitted, draws=5)
    assert "critic shears" in explanation.card().markdown()
    judged = evaluate(logs, {"it": sf.method("accb", critic="shears", pooling=pooling)}, critic="shears")
    assert judged.critic == "shears"
    assert judged.value("never").value.value != evaluate(logs, {}).value("never").value.value


def test_a_critic_with_parameters_of_its_own_is_given_as_an_object(shears, logs):
    fitted = sf.method("accb", critic=Shears(tau=0.5, limit=6000.0)).fit(logs)
    assert_array_equal(fitted.weights_, (logs.outcome < 3000).astype(float))
    assert "critic shears" in explain(fitted, draws=5).card().markdown()
    assert audit(fitted).sensitivity[2].tau == 0.5
    with pytest.raises(sf.InputError, match=r"tau is -1\.0; it must be a finite number above 0"):
        sf.method("accb", critic=Shears(tau=-1.0)).fit(logs)
    with pytest.raises(sf.InputError, match="limit is nan; it must be a finite number"):
        sf.method("accb", critic=Shears(limit=np.nan)).fit(logs)


def test_a_critic_works_in_the_study_file_and_at_the_command_line(shears, logs, tmp_path):
    study, file = tmp_path / "study.toml", tmp_path / "logs.csv"
    study.write_text(STUDY)
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), file)
    fitted = sf.fit_study(file, study)
    removed = int((logs.outcome >= 4000).sum())
    assert fitted.manifest["removed"] == removed
    assert "the shears remove" in run("audit", file, "--study", study)
    assert "critic shears" in run("explain", file, "--study", study)
    assert "shears critic" in run("evaluate", file, "--study", study, "--critic", "shears")


@pytest.mark.parametrize("pooling", ["person", "all", "partial"])
def test_a_critic_with_soft_weights_and_a_parameter_goes_through_everything(huber, logs, pooling, tmp_path):
    fitted = sf.method("accb", critic="huber", delta=2, pooling=pooling).fit(logs)
    assert fitted.critic_ == Huber(delta=2) and fitted.get_params()["critic__delta"] == 2
    assert ((fitted.weights_ > 0) & (fitted.weights_ < 1)).any() and not fitted.removed_.any()
    strict = sf.method("accb", critic=Huber(delta=0.5), pooling=pooling).fit(logs)
    assert strict.weights_.sum() < fitted.weights_.sum()
    loose = sf.method("accb", critic="huber", delta=1e9, pooling=pooling).fit(logs)
    assert_allclose(loose.critic_coef_, sf.method("accb", pooling=pooling).fit(logs).critic_coef_, rtol=1e-6)
    found = audit(fitted)
    assert "Huber's critic" in found.check("depends on tau").reason
    assert "with less than full weight" in found.check("share removed").reason
    assert "critic huber, delta 2" in explain(fitted, draws=5).card().markdown()
    evaluated = evaluate(logs, {"it": fitted.set_params(delta=1.0)}, critic=Huber(delta=2.0))
    assert np.isfinite(evaluated.value("it").value.value)
    fitted.policies_.save(tmp_path / "policies.json")
    saved = sf.policies.load(tmp_path / "policies.json").rule.coefficients()
    assert_array_equal(saved, fitted.policies_.rule.coefficients())


def test_a_critic_with_a_parameter_works_in_the_study_file(huber, logs, tmp_path):
    file = tmp_path / "logs.csv"
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), file)
    coefficients = []
    for number, keys in enumerate(
        (
            'parameters = { critic = "huber", delta = 2 }',
            '[method.critic]\nname = "huber"\ndelta = 2',
            'critic = { name = "huber", delta = 2.0 }',
            'parameters = { critic = "huber" }',
        )
    ):
        study = tmp_path / f"study{number}.toml"
        study.write_text(STUDY.replace('parameters = { critic = "shears" }', keys))
        fitted = sf.fit_study(file, study)
        assert fitted.manifest["method"]["parameters"]["critic"] == "huber"
        coefficients.append(fitted.policies.rule.coefficients())
    assert_array_equal(coefficients[0], coefficients[1])
    assert_array_equal(coefficients[0], coefficients[2])
    assert (coefficients[0] != coefficients[3]).any()
    assert "critic huber, delta 2" in run("explain", file, "--study", tmp_path / "study1.toml")
    for keys, message in (
        (
            "detla = 2",
            r"line 14, key 'method.critic.detla': critic 'huber' has no parameter 'detla' \(did you mean 'delta'\?\)",
        ),
        ("delta = 0", "line 14, key 'method.critic.delta': delta is 0; it must be above 0"),
        ('delta = "two"', "line 14, key 'method.critic.delta': delta is 'two'; it must be a number"),
    ):
        with pytest.raises(sf.InputError, match=message):
            sf.Study.parse(STUDY.replace('parameters = { critic = "shears" }', f'[method.critic]\nname = "huber"\n{keys}'))


@dataclass(frozen=True)
class Steady(RuleLearner):
    """Sends with the same probability in every state."""

    name: ClassVar[str] = "steady"
    title: ClassVar[str] = "the toy rule"
    needs_coefficients: ClassVar[bool] = False
    probability: float = 0.5

    def learn(self, result):
        fits = len(result.scale)
        return Fixed(np.tile([1 - self.probability, self.probability], (fits, 1))), np.ones(fits, dtype=bool)


def test_a_rule_learner_owns_its_parameters(logs):
    register_rule_learner(Steady)
    try:
        fitted = sf.method("ro-accb", rule="steady", probability=0.25).fit(logs)
    finally:
        RULE_LEARNERS.unregister("steady")
    assert_array_equal(fitted.predict_proba(logs)[:, 1], 0.25)


def test_a_critic_that_is_not_registered_is_refused_in_the_study_file():
    with pytest.raises(
        sf.InputError, match=r"line 12, key 'method.parameters.critic': there is no critic 'shears'.*'ridge'"
    ):
        sf.Study.parse(STUDY)


def test_an_estimator_appears_in_the_values_and_on_the_page(logs):
    register_estimator(Agreement())
    try:
        found = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
        page = found.to_html(title="Values")
    finally:
        ESTIMATORS.unregister("agreement")
    assert found.estimators == ("ips", "snips", "direct", "doubly robust", "agreement")
    assert found.value("mostly", "agreement").value.value == pytest.approx(logs.outcome[logs.action == 1].mean())
    assert page.count("where they agree") >= 3
    assert "by 5 estimators" in page


def test_an_estimator_may_learn_a_reward_model_for_each_policy():
    """Where the linear model is wrong and actions were rare in places, MRDR is more precise than doubly robust."""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (60, 60, 1))
    send = np.where(state[..., 0] > 0, 0.1, 0.9)
    action = (rng.random((60, 60)) < send).astype(int)
    effect = 5 * np.sign(state[..., 0]) * state[..., 0] ** 2 + 5 * np.abs(state[..., 0]) ** 3
    reward = effect * action + 0.3 * rng.standard_normal((60, 60))
    probability = np.where(action == 1, send, 1 - send)
    logs = sf.Trajectories.from_arrays(state, action, reward, probability=probability)
    register_estimator(MoreRobust())
    try:
        values = evaluate(logs, {}, checks=())
        page = values.to_html(title="Values")
    finally:
        ESTIMATORS.unregister("mrdr")
    mrdr, plain = (values.value("always", name).value for name in ("mrdr", "doubly robust"))
    assert mrdr.low < effect.mean() < mrdr.high
    assert mrdr.standard_error < 0.85 * plain.standard_error
    assert page.count("more robust doubly robust") >= 3


@dataclass(frozen=True)
class Shrink(Filter):
    """Divides every value."""

    name: ClassVar[str] = "shrink"
    factor: float = 2.0

    def clean_series(self, values, present):
        return values / self.factor


def test_a_filter_is_found_by_its_name(logs):
    register_filter(Shrink)
    try:
        halved = sf.method("accb", filter="shrink").fit(logs)
        fitted = sf.method("accb", filter="shrink", factor=4.0).fit(logs)
    finally:
        FILTERS.unregister("shrink")
    assert_array_equal(halved.logs_.outcome, logs.outcome / 2)
    assert_array_equal(fitted.logs_.outcome, logs.outcome / 4)


def test_a_name_is_given_once():
    with pytest.raises(sf.InputError, match="there already is a critic 'ridge'"):
        register_critic(CRITICS.find("ridge"))


@dataclass(frozen=True)
class Halves(Person):
    """People with even and with odd ids share a fit each."""

    name: ClassVar[str] = "halves"
    whom: ClassVar[str] = "One policy for each half."

    def list_participants(self, logs):
        return np.array(["even", "odd"])

    def list_blocks(self, logs, cells=0):
        half = self.assign_rows(logs)
        for position in range(2):
            yield np.array([position]), logs.order[half[logs.order] == position][None, :]

    def assign_rows(self, logs):
        return logs.participant % 2


def test_a_pooling_says_who_shares_a_fit(logs):
    register_pooling(Halves)
    try:
        fitted = sf.method("ro-accb", pooling="halves").fit(logs)
    finally:
        POOLINGS.unregister("halves")
    assert fitted.participants_.tolist() == ["even", "odd"]
    for position in range(2):
        rewards = np.where(logs.participant % 2 == position, logs.outcome, np.nan)
        alone = sf.method("ro-accb", pooling="all").fit(logs.with_values(outcome=rewards))
        assert_allclose(fitted.critic_coef_[position], alone.critic_coef_[0], rtol=1e-9)
        assert_allclose(fitted.coef_[position], alone.coef_[0], rtol=1e-6, atol=1e-9)


class TenfoldUnits(AbsoluteUnits):
    """Ten times the paper's penalty."""

    name: ClassVar[str] = "tenfold"

    def penalise_critic(self, scaling, penalty, **how):
        return super().penalise_critic(scaling, 10 * penalty, **how)


def test_a_unit_of_penalties_is_found_by_its_name(logs):
    PENALTY_UNITS.register(TenfoldUnits)
    try:
        fitted = sf.method("linucb", penalty_units="tenfold", critic_penalty=3.0).fit(logs)
    finally:
        PENALTY_UNITS.unregister("tenfold")
    same = sf.method("linucb", penalty_units="absolute", critic_penalty=30.0).fit(logs)
    assert_array_equal(fitted.critic_coef_, same.critic_coef_)


@dataclass(frozen=True)
class Cyclic(VariableKind):
    """A number on a circle, such as the hour of the day."""

    name: ClassVar[str] = "cyclic"
    json_type: ClassVar[str] = "a number on the circle"
    period: float = 24.0

    def check(self):
        if not self.period > 0:
            raise ValueError(f"period is {self.period}; it must be above 0")

    def state_columns(self, variable):
        return (f"{variable}: sine", f"{variable}: cosine")

    def read(self, column):
        angle = 2 * np.pi * column.numbers() / self.period
        return StateValues(np.column_stack([np.sin(angle), np.cos(angle)]))

    def from_json(self, value):
        return float(value) if isinstance(value, int | float) and 0 <= value <= self.period else None

    @classmethod
    def recognize(cls, summary):
        return cls() if "hour" in summary.name and summary.numbers is not None else None


@pytest.fixture
def cyclic():
    yield register_kind(Cyclic)
    KINDS.unregister("cyclic")


@pytest.fixture
def hours(tmp_path):
    rows = [
        f"{person},{t},{5 * t % 24},{('yes', 'no')[t * t % 7 % 2]},{t * t % 5 % 2},{(3 * t + person) * 7 % 11}\n"
        for person in range(4)
        for t in range(60)
    ]
    (tmp_path / "logs.csv").write_text("participant,time,hour,rain,action,outcome\n" + "".join(rows))
    return tmp_path / "logs.csv"


def test_a_kind_of_column_goes_through_init_study_screen_fit_explain_and_service(cyclic, hours, tmp_path):
    drafted = draft_study(hours).text
    assert 'kind = "cyclic"' in drafted
    path = tmp_path / "study.toml"
    path.write_text(drafted.replace('kind = "cyclic"', 'kind = "cyclic"\nsettings = { period = 12 }'))
    study = sf.Study.load(path)
    columns = ("hour: sine", "hour: cosine")
    assert study.state_names[:2] == columns
    assert study.descriptions[columns[0]] == "cyclic"
    read = study.read(hours)
    angle = 2 * np.pi * (5 * read.logs.time % 24) / 12
    assert_allclose(read.logs.state[:, 0], np.sin(angle))
    assert "hour" not in [column.name for column in read.screen.screener.layout.columns]
    fitted = sf.fit_study(hours, path, tmp_path / "out")
    assert fitted.manifest["missing"]["hour"] == 0
    policies = sf.policies.load(tmp_path / "out" / "policies.json")
    assert policies.state_names[:2] == columns
    other = sf.Study.parse(study.text.replace("period = 12", "period = 24"))
    with pytest.raises(sf.InputError, match=r"'hour' has settings {'period': 12} in the policies, {'period': 24} in the"):
        other.check_policies(policies, "policies.json")
    explanation = explain(study.method().fit(read.logs), study=study, draws=5)
    assert "hour" in explanation.card().markdown()
    assert "values flagged" in run("screen", hours, "--study", path)
    assert "hour" in run("explain", hours, "--study", path)
    seen = context_to_state(study, {"hour": 3, "rain": True}, {})
    assert_allclose(seen.state[:2], [1, 0], atol=1e-12)
    assert context_to_state(study, {"hour": 13, "rain": True}, {}).reasons == ["implausible: hour"]


def test_a_kind_of_column_is_given_as_an_object(cyclic, hours):
    roles = {"participant": "participant", "time": "time", "action": "action", "outcome": "outcome"}
    logs = sf.Trajectories.from_file(hours, state={"hour": Cyclic(period=6)}, **roles)
    assert_allclose(logs.state[:, 1], np.cos(2 * np.pi * (5 * logs.time % 24) / 6))
    assert sf.Trajectories.from_file(hours, state={"hour": "cyclic"}, **roles).state_names == logs.state_names
    with pytest.raises(sf.InputError, match=r"state\['hour'\]: period is -1; it must be above 0"):
        sf.Trajectories.from_file(hours, state={"hour": Cyclic(period=-1)}, **roles)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("settings = { perod = 6 }", r"kind 'cyclic' has no setting 'perod' \(did you mean 'period'\?\); it has"),
        ("settings = { period = -6 }", "period is -6; it must be above 0"),
        ('levels = ["a", "b"]', "'levels' belongs to kind = 'category', not to 'cyclic'"),
    ],
)
def test_wrong_settings_of_a_kind_are_refused_in_the_study_file(cyclic, line, words):
    with pytest.raises(sf.InputError, match=words):
        sf.Study.parse(f'[columns]\nparticipant = "p"\ntime = "t"\n[state.hour]\nkind = "cyclic"\n{line}\n')
