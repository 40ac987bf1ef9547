"""Mistakes in Python."""

import re
import sys
from unittest import mock

import numpy as np

import surefoot as sf
from tests.mistakes.catalogue import Mistake
from tests.mistakes.given import both_probabilities, trial, unbalanced

ROLES = {"participant": "participant", "time": "time", "state": ["weather"], "action": "action", "outcome": "outcome"}

EFFECT = {"participant": "participant", "time": "time", "treatment": "action", "outcome": "outcome"}
MISREAD = {"probability": "p_sent", "probability_of": "action taken"}


def frame(**changes):
    return lambda: sf.Trajectories.from_frame(trial().to_frame("pandas"), **{**ROLES, **changes})


def effect(**changes):
    return lambda: sf.effects.wcls(trial().to_frame("pandas"), **{**EFFECT, **changes})


def fit_centred(**roles):
    logs = sf.Trajectories.from_frame(both_probabilities(), **{**ROLES, "state": ["mood"]}, **roles)
    return sf.method("accb", centre_actions=True).fit(logs)


def policies():
    return sf.method("accb").fit(trial()).policies_


def arrays(state=(2, 3, 1), action=(2, 3), outcome=(2, 3), **more):
    return lambda: sf.Trajectories.from_arrays(np.zeros(state), np.zeros(action), np.zeros(outcome), **more)


def rehearsal(**more):
    study = sf.Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n')
    return lambda: sf.rehearsal.fit_pilot(arrays(**more)(), study)


def without_polars():
    with mock.patch.dict(sys.modules, {"polars": None}):
        arrays()().to_frame("polars")


def read_note(simulator, points):
    """The last note of an evaluation that is no error, its p-value left out."""
    logs = simulator.collect(sf.policies.coin(2), decision_points=points, seed=1)
    note = sf.evaluation.evaluate(logs, {}, long_run=True).notes[-1]
    raise sf.InputError(re.sub(r"p [=<] [0-9.]+", "p = P", note))


MISTAKES = [
    Mistake(
        "a table of polars where polars is not installed",
        without_polars,
        "frames of 'polars' need polars; install it with: pip install polars, or ask for 'pyarrow'",
    ),
    Mistake(
        "from_frame with a dictionary",
        lambda: sf.Trajectories.from_frame({"participant": [1]}, **ROLES),
        "expected a pandas, polars or Arrow table, got dict; collect it first if it is lazy",
    ),
    Mistake(
        "from_frame with a lazy frame",
        lambda: sf.Trajectories.from_frame(trial().to_frame("polars").lazy(), **ROLES),
        "expected a pandas, polars or Arrow table, got LazyFrame; collect it first if it is lazy",
    ),
    Mistake(
        "from_frame with a column that is not there",
        frame(outcome="outcmoe"),
        "there is no column 'outcmoe' (did you mean 'outcome'?); the table has ['participant', 'time', 'weather', 'engagement', 'fatigue', 'available', 'action', 'probability', 'outcome']",
    ),
    Mistake(
        "from_frame with a column in two roles",
        frame(outcome="weather"),
        "column 'weather' is named twice; every role needs a column of its own",
    ),
    Mistake("from_frame without a state", frame(state=[]), "state must list at least one column, for example state=['s1']"),
    Mistake(
        "from_frame with a kind that does not exist",
        frame(state={"weather": "categry"}),
        "state['weather'] is 'categry' (did you mean 'category'?); write one of ['number', 'category', 'yes/no'], or Category(levels=('other', 'home'))",
    ),
    Mistake(
        "from_frame with a category that has a value for every row",
        frame(state={"weather": "category"}),
        "column 'weather' holds 240 different values where a category has 2 to 12; name its levels with Category(levels=(…)), or choose another kind",
    ),
    Mistake(
        "from_frame with one column instead of a list",
        frame(state="weather"),
        "state must list at least one column, for example state=['weather']",
    ),
    Mistake(
        "from_frame with a probability of nobody knows what",
        frame(probability="probability"),
        "column 'probability': nothing says what it is the probability of; write probability_of='action taken' or probability_of='sending' (mean weights must be 1: with 'action taken' they are nothing 0.94, send 1.04; with 'sending' they are nothing 0.62, send 1.04)",
    ),
    Mistake(
        "from_frame with a meaning that does not exist",
        frame(probability="probability", probability_of="treatment"),
        "probability_of is 'treatment'; write one of ['action taken', 'sending']",
    ),
    Mistake(
        "from_frame with the probability of sending and several actions",
        frame(probability="probability", probability_of="sending", actions=3),
        "probability_of='sending' says nothing about which of several actions was sent; give the probability of the action taken",
    ),
    Mistake(
        "An effect with a probability of nobody knows what",
        effect(probability="probability"),
        "column 'probability': nothing says what it is the probability of; write probability_of='action taken' or probability_of='sending' (mean weights must be 1: with 'action taken' they are nothing 0.94, treatment 1.04; with 'sending' they are nothing 0.62, treatment 1.04)",
    ),
    Mistake(
        "An effect with a number that is not of sending",
        effect(probability=0.6, probability_of="action taken"),
        "a number, or a list of columns, is the probability of sending; write probability_of='sending'",
    ),
    Mistake(
        "An effect with probabilities of another meaning",
        lambda: sf.effects.wcls(both_probabilities(), **EFFECT, **MISREAD),
        "column 'p_sent': the probabilities cannot be those of the action taken: the mean weight of 'nothing' is 0.47 ± 0.05 over 12 people, where it must be 1; they look like those of sending: write columns.probability_of = \"sending\" (in Python: probability_of)",
    ),
    Mistake(
        "An effect with a control that follows the action",
        lambda: sf.effects.wcls(unbalanced().to_frame(), **EFFECT, probability=0.5, controls=["mood"]),
        "'mood' differs between rows with and without 'treatment' more than randomisation allows (p < 0.001): it is known only after the decision, or the probabilities are not those that were used; name a variable that was known before, or give the probabilities that were used",
    ),
    Mistake(
        "Centred actions with probabilities of another meaning",
        lambda: fit_centred(**MISREAD),
        "column 'p_sent': the probabilities cannot be those of the action taken: the mean weight of 'nothing' is 0.47 ± 0.05 over 12 people, where it must be 1; they look like those of sending: write columns.probability_of = \"sending\" (in Python: probability_of)",
    ),
    Mistake(
        "from_frame with one action",
        frame(actions=1),
        "actions must be a number of at least 2, or at least two different names; got 1",
    ),
    Mistake(
        "from_frame with an empty frame",
        lambda: sf.Trajectories.from_frame(trial().to_frame("pandas").head(0), **ROLES),
        "the table has no rows; give it at least one decision point",
    ),
    Mistake(
        "from_arrays with a state of two axes",
        arrays(state=(2, 3)),
        "state has 2 axes; it needs three: (people, decision points, state variables)",
    ),
    Mistake(
        "from_arrays with outcomes of another shape",
        arrays(outcome=(3, 2)),
        "outcome has shape (3, 2); state asks for (2, 3)",
    ),
    Mistake(
        "from_arrays with one id for two people",
        arrays(participants=["ann", "ann"]),
        "participants must be 2 different ids (whole numbers or text), one per row of state; got array(['ann', 'ann'], dtype='<U3')",
    ),
    Mistake("from_arrays with nobody", arrays(lengths=[0, 0]), "the arrays hold no decision point"),
    Mistake(
        "to_frame of a library that is not known",
        lambda: trial().to_frame("excel"),
        "no frames of 'excel'; choose pandas, polars or pyarrow",
    ),
    Mistake(
        "with_values of another shape",
        lambda: trial().with_values(outcome=np.zeros(3)),
        "outcome must be finite or missing and of shape (240,)",
    ),
    Mistake(
        "method in capitals",
        lambda: sf.method("RO-ACCB"),
        "there is no method 'RO-ACCB' (did you mean 'ro-accb'?); choose from ['linucb', 'accb', 'saccb', 'filter-linucb', 'filter-accb', 'filter-saccb', 'ro-linucb', 'ro-accb', 'ro-saccb', 'hb-linucb', 'hb-accb', 'hb-saccb', 'ahead', 'ro-ahead', 'hb-ahead', 'ts', 'ro-ts', 'hb-ts', 'recommended']",
    ),
    Mistake(
        "method with a parameter that it does not have",
        lambda: sf.method("linucb", actor_penalty=0.1),
        "'actor_penalty' is a parameter of rule = 'actor' or 'stochastic-actor', and here rule = 'linucb'; choose that rule or leave actor_penalty out",
    ),
    Mistake(
        "method with a word where a number is meant",
        lambda: sf.method("ro-accb", tau="big"),
        "tau is 'big'; it must be a number",
    ),
    Mistake(
        "method with a number below its limit",
        lambda: sf.method("ro-accb", critic_penalty=-1.0),
        "critic_penalty is -1.0; it must be a finite number of at least 0",
    ),
    Mistake(
        "method with a filter that does not exist",
        lambda: sf.method("accb", filter="median"),
        "there is no filter 'median' (did you mean 'kalman'?); choose from ['hampel', 'kalman']",
    ),
    Mistake(
        "fit with a frame",
        lambda: sf.method("accb").fit(trial().to_frame("pandas")),
        "fit takes Trajectories, not DataFrame; make them with Trajectories.from_frame",
    ),
    Mistake(
        "fit with a variable that is not there",
        lambda: sf.method("accb", critic_variables=("wether",)).fit(trial()),
        "critic_variables names 'wether', which the logs do not have (did you mean 'weather'?)",
    ),
    Mistake(
        "fit_study with trajectories",
        lambda: sf.fit_study(trial(), "study.toml"),
        "fit_study takes the path of logs, or what study.read gave, not Trajectories; trajectories are fitted by a method: surefoot.method('ro-accb').fit(logs)",
    ),
    Mistake(
        "audit of what is not a fit",
        lambda: sf.audit.audit(trial()),
        "audit takes a fitted method, not Trajectories; fit one first: surefoot.method('ro-accb').fit(logs)",
    ),
    Mistake(
        "a policy for somebody who was not fitted",
        lambda: policies().probabilities([99], [[0.0, 0.0, 0.0]]),
        "row 0: unknown participant 99; correct the id, or fit again with this participant",
    ),
    Mistake(
        "a policy for ids of another type",
        lambda: policies().probabilities(["ann"], [[0.0, 0.0, 0.0]]),
        "the ids of participants are whole numbers here, not text or something else; got 'ann'",
    ),
    Mistake(
        "a policy for states of another width",
        lambda: policies().probabilities([0], [[0.0, 0.0]]),
        "states have shape (1, 2); give one row per decision, (n, 3: weather, engagement, fatigue)",
    ),
    Mistake(
        "policies saved as something else",
        lambda: policies().save("policies.txt"),
        "policies.txt: policies are saved as .json or .parquet",
    ),
    Mistake(
        "policies saved into a folder that is not there",
        lambda: policies().save("results/policies.json"),
        "results/policies.json: there is no folder results; make it first",
    ),
    Mistake(
        "policies that are not there",
        lambda: sf.policies.load("policies.json"),
        "policies.json: there is no such file; check the name and the folder",
    ),
    Mistake(
        "evaluate with a list",
        lambda: sf.evaluation.evaluate(trial(), [sf.policies.coin(2)]),
        "policies are given by name, as {'mine': policy}, not as a list",
    ),
    Mistake(
        "evaluate with a word",
        lambda: sf.evaluation.evaluate(trial(), {"mine": "always"}),
        "'mine' is 'always'; give policies, a method, a function of states, or an array of probabilities",
    ),
    Mistake(
        "evaluate with a function that gives too little",
        lambda: sf.evaluation.evaluate(trial(), {"mine": lambda states: [0.5]}),
        "'mine' gives probabilities of shape (1,); give one row for each of 240",
    ),
    Mistake(
        "evaluate with numbers that are not probabilities",
        lambda: sf.evaluation.evaluate(trial(), {"mine": lambda states: np.full((len(states), 2), 0.7)}),
        "'mine' gives [0.7, 0.7] at a decision point; give probabilities, which sum to 1",
    ),
    Mistake(
        "long-run values from short series, in the result's `notes`",
        lambda: read_note(sf.simulators.HeartSteps(participants=40), 20),
        "the median participant has 19 consecutive decision points, fewer than 30: the long-run values are biased and their intervals too short; wait for longer series",
    ),
    Mistake(
        "long-run values of people who react differently, in the result's `notes`",
        lambda: read_note(sf.simulators.HeartSteps(participants=80, spread=2.0), 100),
        "people differ in how they react (the two halves of a participant's decision points show the same deviations, p = P): the long-run values are corrected for this, and their intervals are wider",
    ),
    Mistake(
        "a critic that is neither a name nor a regressor",
        lambda: sf.method("accb", critic=3),
        "critic is 3; give a critic's name, a Critic, or a regressor, which int is not: it has no fit",
    ),
    Mistake(
        "LinUCB with a regressor as critic",
        lambda: sf.method("linucb", critic="random-forest"),
        "LinUCB needs a critic that is linear in the state, which the random forest is not; take critic = 'capped', 'ridge' or 'high-breakdown', or a method that needs only what the critic expects (accb, saccb)",
    ),
    Mistake(
        "set_params with a parameter that does not exist",
        lambda: sf.method("accb").set_params(actor_penatly=1.0),
        "there is no parameter 'actor_penatly' (did you mean 'actor_penalty'?); there are ['rule', 'critic', 'pooling', 'horizon', 'filter', 'choice', 'baseline', 'critic_penalty', 'penalty_units', 'penalize_intercept', 'forgetting', 'centre_actions', 'critic_variables', 'policy_variables', 'actor_penalty']",
    ),
    Mistake(
        "set_params of a critic that has no parameters of its own",
        lambda: sf.method("accb").set_params(critic__alpha=1.0),
        "critic 'ridge' has no parameter 'alpha'; it has none",
    ),
    Mistake(
        "predict_proba without saying whose policy",
        lambda: sf.method("accb").fit(trial()).predict_proba(trial().state),
        "everybody has a policy of their own; say whose it is: predict_proba(states, participant=...)",
    ),
    Mistake("one row of logs", lambda: trial()[3], "rows have shape (); give a list of rows, a mask or a slice"),
    Mistake(
        "going through logs row by row",
        lambda: list(trial()),
        "Trajectories are not a list of rows; take a frame (logs.to_frame()), or some rows (logs[rows])",
    ),
    Mistake(
        "a pilot with one participant",
        rehearsal(state=(1, 3, 1), action=(1, 3), outcome=(1, 3)),
        "a pilot with one participant does not say how people differ; give at least two, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "a pilot without probabilities",
        rehearsal(),
        "the pilot's randomisation probabilities are missing; log them (columns.probability), or write what the design was: [actions] probabilities = [0.4, 0.6] with your numbers",
    ),
    Mistake(
        "a pilot whose outcome never varies",
        rehearsal(probability=np.full((2, 3), 0.5)),
        "the pilot's outcome is always 0, so its spread cannot be learned; name the column that varies as [outcome] column, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "a rehearsal without a pilot and without a range of the outcome",
        lambda: sf.rehearsal.from_study(
            sf.Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n'), seed=1
        ),
        "the study does not say how the outcome varies; write [outcome] range = [0, 100], or give mean, sd",
    ),
]
