"""What a notebook shows: `repr`, `dir`, HTML, signatures, plots, summaries and files of the objects one meets most."""

import inspect
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes

import surefoot as sf
from surefoot.reports.summaries import SCREEN_WIDTH, Shown, read_next_steps
from tests.test_docstrings import PUBLIC

mpl.use("Agg")
SCREEN_LINES = 25
COLUMNS = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action", "probability": 0.5}
STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "probability"\n[state.weather]\n[screen]\n'


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=40, seed=0)


@pytest.fixture(scope="module")
def life(logs, tmp_path_factory):
    """The objects of an analysis, from logs to a plan."""
    fitted = sf.method("ro-accb").fit(logs)
    pooled = sf.method("ro-accb", pooling="all")
    study = sf.Study.parse(STUDY)
    path = tmp_path_factory.mktemp("notebook") / "logs.csv"
    logs.to_frame("pandas").to_csv(path, index=False)
    read = study.read(path)
    audit = sf.audit.audit(fitted)
    return {
        "logs": logs,
        "study": study,
        "read": read,
        "screen": sf.screening.screen(logs),
        "method": pooled,
        "fitted": fitted,
        "fitted study": sf.fit_study(path, study),
        "everything learned": fitted.fitted_,
        "policies": fitted.policies_,
        "policy": fitted.policies_[0],
        "audit": audit,
        "explanation": sf.explain.explain(fitted, audit=audit, draws=5, most_people=2),
        "values": sf.evaluation.evaluate(logs, {"learned": pooled}),
        "effect": sf.effects.wcls(logs.to_frame(), **COLUMNS, controls=["engagement"]),
        "effects": sf.effects.analyse(logs.to_frame(), **COLUMNS, controls=["engagement"], sensitivity=()),
        "pilot": sf.sample_size.estimate_nuisance(study, read),
        "size": sf.sample_size.continuous(42, 5, effect=0.1, availability=0.7),
    }


def test_everything_fits_a_screen_and_says_what_to_do_next(life):
    for name, thing in life.items():
        lines = repr(thing).splitlines()
        assert len(lines) <= SCREEN_LINES and max(map(len, lines)) <= SCREEN_WIDTH, name
        page = thing._repr_html_()
        for step in read_next_steps().get(thing.topic, {}):
            assert any(step in line for line in lines), (name, step)
            assert step.replace('"', "&quot;") in page
        assert ("<script" not in page and "Next: " in repr(thing)) or name == "everything learned"


def test_what_is_suggested_exists():
    """Code that begins with a point names a method or attribute of the class."""
    classes = {thing.__name__: thing for thing in PUBLIC.values() if inspect.isclass(thing)}
    classes["Fitted method"] = classes["Method"]
    for topic, steps in read_next_steps().items():
        assert issubclass(classes[topic], Shown), topic
        for step in steps:
            if step.startswith("."):
                name = re.match(r"\.(\w+)", step)[1]
                annotated = {field for kind in classes[topic].__mro__ for field in vars(kind).get("__annotations__", ())}
                assert hasattr(classes[topic], name) or name in annotated, (topic, step)


OVERVIEWS = {
    "logs": """\
Trajectories: 12 people, 480 decision points
state    weather, engagement, fatigue
actions  nothing 49 %, send 51 % of 480 available decision points
outcome  outcome: mean 1,311, 0 missing

Next: .head()                       the first rows; .to_frame() gives all of them
      .describe()                   numbers about every column
      logs[logs.participant == ID]  some decision points: a mask, rows or a slice
      sf.screening.screen(logs)     values that cannot be trusted
      sf.method("hb-ts").fit(logs)  learn a policy for every participant""",
    "method": """\
Method, not fitted
rule     Actor(actor_penalty=0.0001)
critic   Capped(tau=1.0, refresh_threshold=False)
pooling  Everyone()
horizon  Immediate()

Next: .fit(logs)        learn policies from logs
      .set_params(...)  change parameters; .list_parameters() names them""",
    "policies": """\
Policies of 12 people: boltzmann
actions    nothing, send
state      weather, engagement, fatigue
newcomers  have none

Next: .probabilities(participants, states)  probabilities of the actions
      policies[participant]                 the policy of one participant
      .save("policies.json")                sf.policies.load reads it again""",
    "size": """\
Sample size: 24 people, power 80.6 %
effect  a mean effect of 0.1 (standard deviation of the outcome 1)
test    F(1, 20) at level 0.05

mean effect  people for 80 %  people for 90 %  power with 24
0.050                     88              117          0.293
0.075                     41               53          0.564
0.100                     24               31          0.806
0.125                     17               21          0.942
0.150                     13               16          0.988

Next: .sentence                   for the protocol, with every assumption
      .plot()                     power by number of participants
      sf.rehearsal.rehearse(...)  rehearse the trial before it starts""",
    "study": """\
Study: ro-accb for outcome
participant  column participant; time in time
state        weather
actions      nothing, send in column action
probability  column probability
screen       on
trial        none: only for surefoot serve

Next: .read("logs.csv")                            the logs as the study describes them
      .method().fit(study.read("logs.csv").logs)   learn policies in memory
      sf.fit_study("logs.csv", study, "fitted")    learn policies into a folder
      sf.effects.analyse_study(study, "logs.csv")  did the prompts help?""",
}


@pytest.mark.parametrize("name", OVERVIEWS)
def test_overviews_whose_numbers_no_processor_changes(life, name):
    assert repr(life[name]) == OVERVIEWS[name]


def test_overviews_hold_the_numbers_of_their_objects(life):
    fitted = life["fitted"]
    assert f"removed  {fitted.removed_.sum()} decision points, as outliers" in repr(fitted)
    assert f"Audit of a fit: {life['audit'].verdict}\n" in repr(life["audit"])
    assert f"sends at  {100 * life['explanation'].send_rate:.0f} % of decision points" in repr(life["explanation"])
    effect = life["effect"]
    coefficient = next(line.split() for line in repr(effect).splitlines() if line.startswith("Intercept"))
    numbers = [effect.params[0], effect.bse[0], effect.tvalues[0], *effect.conf_int()[0]]
    assert coefficient[1:4] + coefficient[5:] == [f"{number:.4f}" for number in numbers]
    assert float(coefficient[4]) == pytest.approx(effect.pvalues[0], abs=5e-4)
    assert f"{len(life['screen'].flags.row)} values" in repr(life["screen"])
    values = [line.split()[0] for line in repr(life["values"]).splitlines() if " to " in line]
    assert values == ["learned", "never", "always"]
    assert f"used      {life['fitted study'].manifest['used']} of 480 decision points" in repr(life["fitted study"])


NAMES = {
    "logs": "action action_names actions available backend describe head names outcome participant participants probability "
    "select shape state state_names time to_frame usable with_values",
    "method": "baseline centre_actions choice critic critic_penalty critic_variables filter fit forgetting get_params "
    "horizon "
    "list_parameters load penalize_intercept penalty_units policy_variables pooling rule set_params",
    "fitted": "baseline "
    "centre_actions choice chosen_ coef_ coefficients converged_ critic critic_ critic_coef_ critic_penalty "
    "critic_variables filter fit fitted_ forgetting get_params horizon horizon_ list_parameters load logs_ n_iter_ outliers "
    "outlook_ participants_ penalize_intercept penalty_ penalty_units policies_ policy_variables pooled_ pooling pooling_ "
    "posterior_ predict_proba removed_ residuals_ rule save scale_ set_params summary threshold_ "
    "time_effects_ update used_ weights_",
    "policies": "action_names from_dict participants probabilities rule sample save serves_anybody state_names to_dict",
    "screen": "blind counts flags list_counts logs marks plot row screener summary to_dict to_frame to_html treatment "
    "usual values verdict warnings",
    "audit": "check checks effect implausible left_out people plot removed sensitivity summary to_dict to_frame to_html "
    "totals verdict",
    "explanation": "audit card coefficients consequences courses curves differences disagreements effect_courses "
    "fitted importances left_out logged_rate method_name people plot send_rate send_rates study summary to_dict to_frame "
    "to_html unit variables",
    "values": "action_names checks contrasts critic cross_fit decision_points describe_long_run estimators headlines "
    "long_run notes overlap people plot plot_overlap summary to_dict to_frame to_html unit value values",
    "size": "cautious degrees design people pilot pilot_lines plot power sentence summary to_dict to_frame to_html "
    "to_latex wanted_power",
    "study": "actions collection columns days descriptions effects file groups load method method_name monitoring outcome "
    "outcome_unit parse pooling probability_limits questionnaire read scaling screen state state_names text "
    "treatment_words trial",
}


@pytest.mark.parametrize("name", NAMES)
def test_tab_completion_shows_what_there_is_and_hides_machinery(life, name):
    assert " ".join(dir(life[name])) == NAMES[name]


def list_callables():
    for name, thing in PUBLIC.items():
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            yield name, thing
            hidden = getattr(thing, "machinery", frozenset())
            for member, value in vars(thing).items():
                if member[0] != "_" and member not in hidden and callable(getattr(thing, member, None)):
                    yield f"{name}.{member}", getattr(thing, member) if not inspect.isclass(value) else value


OF_SCIKIT_LEARN = {"set_params"}


def test_signatures_name_every_keyword():
    vague = []
    for name, thing in list_callables():
        try:
            parameters = inspect.signature(thing).parameters.values()
        except (TypeError, ValueError):
            continue
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            vague.append(name)
    assert [name for name in vague if name.rpartition(".")[2] not in OF_SCIKIT_LEARN] == []


def test_a_method_by_name_shows_the_parameters_of_all_parts():
    shown = inspect.signature(sf.method).parameters
    assert {"critic", "pooling", "tau", "exploration", "random_walk", "critic_penalty"} < shown.keys()
    assert shown["tau"].default == sf.critics.Capped().tau


def test_plots_are_axes_that_one_can_change(life):
    import matplotlib.pyplot as plt

    for name in ("screen", "audit", "explanation", "values", "effects", "size"):
        if name in ("audit", "size"):
            assert isinstance(life[name].plot(), Axes) and plt.get_fignums(), name
            plt.close("all")
        figure, (left, right) = plt.subplots(1, 2)
        assert life[name].plot(ax=right) is right and not left.has_data() and right.has_data()
        assert not figure.legends, name
        plt.close("all")
    with pytest.raises(sf.InputError, match="no study day"):
        life["effects"].plot_curve()


def test_summaries_are_tables_of_fixed_width_and_hold_the_numbers(life):
    fitted = life["fitted"]
    rows = [line.split() for line in fitted.summary().splitlines() if line.startswith("policy")]
    assert [row[2] for row in rows] == ["weather", "engagement", "fatigue", "intercept"]
    for row, values in zip(rows, fitted.coef_.T, strict=True):
        shown = [float(cell.replace("−", "-").replace(",", "")) for cell in row[3:]]
        assert shown == pytest.approx([values.mean(), values.std(ddof=1), values.min(), values.max()], rel=5e-3)
    assert life["effect"].summary()._repr_html_().startswith("<pre")
    for name in ("screen", "audit", "explanation", "values", "effect", "effects", "size"):
        assert repr(life[name].summary()) == str(life[name].summary())
    with pytest.raises(sf.NotFittedError):
        life["method"].summary()


def test_arguments_in_the_wrong_order_are_named(life):
    with pytest.raises(sf.InputError, match="takes Trajectories first, not Method"):
        sf.evaluation.evaluate(life["fitted"], {"learned": life["fitted"]})


def test_polars_in_polars_out(logs):
    import polars as pl

    frame = logs.to_frame("polars")
    roles = {"participant": "participant", "time": "time", "action": "action", "outcome": "outcome"}
    ours = sf.Trajectories.from_frame(frame, **roles, state=["weather"], probability="probability")
    fitted = sf.method("ro-accb").fit(ours)
    values = sf.evaluation.evaluate(ours, {})
    effect = sf.effects.wcls(frame, **COLUMNS)
    tables = [ours.head(), ours.describe(), fitted.coefficients(), fitted.outliers(), values.to_frame(), effect.to_frame()]
    tables += [sf.screening.screen(ours).to_frame(), sf.audit.audit(fitted).to_frame()]
    assert {type(table) for table in tables} == {pl.DataFrame}


def test_logs_answer_as_a_frame_does(logs):
    frame = logs.head(3)
    assert frame["outcome"].tolist() == logs.outcome[:3].tolist()
    table = logs.describe().set_index("variable")
    expected = logs.to_frame("pandas")[["weather", "engagement", "fatigue", "outcome"]].describe()
    for ours, theirs in {
        "mean": "mean",
        "sd": "std",
        "min": "min",
        "median": "50%",
        "max": "max",
        "present": "count",
    }.items():
        np.testing.assert_allclose(table[ours], expected.loc[theirs].to_numpy(), rtol=1e-12)
    named = sf.Trajectories.from_arrays(np.zeros((2, 3, 1)), np.zeros((2, 3)), np.zeros((2, 3)), participants=["p1", "p2"])
    assert len(named[named.participant == "p1"]) == 3
