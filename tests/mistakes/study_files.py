"""Mistakes in study files."""

from pathlib import Path

import surefoot as sf
from tests.mistakes.catalogue import Mistake
from tests.mistakes.given import STUDY, add, key


def bytes_of(content):
    def make():
        Path("study.toml").write_bytes(content)
        return sf.Study.load("study.toml")

    return make


MISTAKES = [
    Mistake(
        "No study.toml",
        lambda: sf.Study.load("study.toml"),
        "study.toml: there is no such file; surefoot init LOGS --out study.toml writes a first one",
    ),
    Mistake(
        "The logs where the study belongs",
        lambda: sf.Study.load("logs.csv"),
        "logs.csv: holds logs, not a study; write surefoot fit logs.csv --study study.toml",
    ),
    Mistake("A study in another encoding", bytes_of(b"# \x99\n"), "study.toml: byte 2 is not UTF-8; save the file as UTF-8"),
    Mistake(
        "A bracket that is never closed",
        bytes_of(b"[columns\n"),
        "study.toml: line 1: not TOML (expected ']' at the end of a table declaration): [columns",
    ),
    Mistake(
        "Text without quotes", key('"ro-accb"', "ro-accb"), 'study.toml: line 25: text needs quotes; write name = "ro-accb"'
    ),
    Mistake(
        "A transform without quotes",
        key('"log(x + 0.5)"', "log(x + 0.5)"),
        'study.toml: line 22: text needs quotes; write transform = "log(x + 0.5)"',
    ),
    Mistake(
        "A key twice",
        key('column = "sent"', 'column = "sent"\ncolumn = "sent"'),
        'study.toml: line 19: column = "sent" stands above already; keep one of them',
    ),
    Mistake(
        "A section with a typing mistake",
        key("[outcome]", "[outcomes]"),
        "study.toml: line 20, key 'outcomes': unknown key (did you mean 'outcome'?); valid here are file, columns, state, actions, outcome, collection, screen, questionnaire, method, probability_limits, effects, monitoring, trial, groups",
    ),
    Mistake(
        "A section that is missing",
        key("[columns]", "[colums]"),
        "study.toml: line 1, key 'colums': unknown key (did you mean 'columns'?); valid here are file, columns, state, actions, outcome, collection, screen, questionnaire, method, probability_limits, effects, monitoring, trial, groups (and 1 more)",
    ),
    Mistake(
        "A key with a typing mistake",
        key("range = [0, 10]", "rnage = [0, 10]"),
        "study.toml: line 8, key 'state.mood.rnage': unknown key (did you mean 'range'?); valid here are column, kind, levels, settings, missing, range, unit, scaling, use, device, derived, discount, start",
    ),
    Mistake(
        "A role without a column",
        key('participant = "participant"\n', ""),
        "study.toml: line 1, key 'columns.participant': is missing; every study needs it",
    ),
    Mistake(
        "A number where a column's name belongs",
        key('column = "steps"', "column = 3"),
        "study.toml: line 21, key 'outcome.column': must be text in quotes; got 3",
    ),
    Mistake(
        "A column with two roles",
        key('column = "steps"', 'column = "time"'),
        "study.toml: line 1, the study: column 'time' is named twice; every role needs a column of its own",
    ),
    Mistake(
        "A state variable called like another role's column",
        key("[state.mood]", "[state.time]"),
        "study.toml: line 1, the study: state variable 'time' has the name of another role's column; give it another name",
    ),
    Mistake(
        "The outcome as a state variable",
        add("[state.steps]\n"),
        "study.toml: line 26, key 'state.steps': its column is the outcome, which is known only after the decision; a state holds what was known before it, so leave this variable out",
    ),
    Mistake(
        "The outcome as a state variable under another name",
        add('[state.walked]\ncolumn = "steps"\n'),
        "study.toml: line 26, key 'state.walked': its column is the outcome, which is known only after the decision; a state holds what was known before it, so leave this variable out",
    ),
    Mistake(
        "The action as a state variable",
        add('[state.prompted]\ncolumn = "sent"\n'),
        "study.toml: line 26, key 'state.prompted': its column is the action, which is known only after the decision; a state holds what was known before it, so leave this variable out",
    ),
    Mistake(
        "No state variable",
        bytes_of(b'[columns]\nparticipant = "p"\ntime = "t"\n[state]\n'),
        "study.toml: line 4, key 'state': write a section [state.NAME] for every state variable, at least one",
    ),
    Mistake(
        "Keys of a state variable without its name",
        key("[state.mood]", "[state]"),
        "study.toml: line 8, key 'state.range': must be a section of its own; got [0, 10]",
    ),
    Mistake(
        "A kind with a typing mistake",
        key('"yes/no"', '"yesno"'),
        "study.toml: line 11, key 'state.rain.kind': there is no kind 'yesno' (did you mean 'yes/no'?); choose from ['number', 'category', 'yes/no']",
    ),
    Mistake(
        "A category without levels",
        key('levels = ["other", "home"]\n', ""),
        "study.toml: line 13, key 'state.place': a category needs at least two different levels, for example levels = ['other', 'home']",
    ),
    Mistake(
        "A category with one level",
        key('["other", "home"]', '["home"]'),
        "study.toml: line 13, key 'state.place': a category needs at least two different levels, for example levels = ['other', 'home']",
    ),
    Mistake(
        "Levels of a number",
        key("range = [0, 10]", 'levels = ["low", "high"]'),
        "study.toml: line 7, key 'state.mood': 'levels' belongs to kind = 'category', not to 'number'",
    ),
    Mistake(
        "A range of a category",
        key('levels = ["other", "home"]', 'levels = ["other", "home"]\nrange = [0, 1]'),
        "study.toml: line 13, key 'state.place': 'range' belongs to kind = 'number', not to 'category'",
    ),
    Mistake(
        "A range the wrong way round",
        key("[0, 10]", "[10, 0]"),
        "study.toml: line 8, key 'state.mood.range': [10, 0] is not a range; write [lowest, highest]",
    ),
    Mistake(
        "A range with one end",
        key("[0, 10]", "[0]"),
        "study.toml: line 8, key 'state.mood.range': [0] is not a range; write [lowest, highest]",
    ),
    Mistake(
        "A scaling by 0",
        key("range = [0, 10]", "scaling = { centre = 5, scale = 0 }"),
        "study.toml: line 8, key 'state.mood.scaling.scale': must be greater than 0; got 0",
    ),
    Mistake(
        "A scaling with a typing mistake",
        key("range = [0, 10]", "scaling = { center = 5 }"),
        "study.toml: line 8, key 'state.mood.scaling.center': unknown key (did you mean 'centre'?); valid here are centre, scale",
    ),
    Mistake(
        "A use that does not exist",
        key("range = [0, 10]", 'use = "actor"'),
        "study.toml: line 8, key 'state.mood.use': must be 'critic', 'policy' or 'both'; got 'actor'",
    ),
    Mistake(
        "No variable for the policy",
        lambda: sf.Study.parse('[columns]\nparticipant = "p"\ntime = "t"\n[state.mood]\nuse = "critic"\n'),
        "study.toml: line 1, the study: no state variable is used by the policy; set use = 'policy' or 'both' for one",
    ),
    Mistake(
        "One action",
        key('column = "sent"', 'column = "sent"\nnames = ["walk"]'),
        "study.toml: line 17, key 'actions': names must be at least two different names, the first of which means 'nothing'",
    ),
    Mistake(
        "Fewer values than actions",
        key('column = "sent"', 'column = "sent"\nvalues = ["Y"]'),
        "study.toml: line 17, key 'actions': values must hold one entry for each of the 2 actions; got 1",
    ),
    Mistake(
        "Two actions with one value",
        key('column = "sent"', 'column = "sent"\nvalues = ["Y", "Y"]'),
        "study.toml: line 17, key 'actions': values must differ from each other",
    ),
    Mistake(
        "Probabilities that do not sum to 1",
        key('column = "sent"', 'column = "sent"\nprobabilities = [0.4, 0.5]'),
        "study.toml: line 17, key 'actions': probabilities sum to 0.9; they must sum to 1",
    ),
    Mistake(
        "A probability above 1 in the design",
        key('column = "sent"', 'column = "sent"\nprobabilities = [-0.2, 1.2]'),
        "study.toml: line 19, key 'actions.probabilities': must be greater than or equal to 0; got -0.2 (and 1 more)",
    ),
    Mistake(
        "The probability said twice",
        key('column = "sent"', 'column = "sent"\nprobabilities = [0.4, 0.6]'),
        "study.toml: line 1, the study: columns.probability and actions.probabilities both say the probability; keep one",
    ),
    Mistake(
        "A convention that does not exist",
        key('probability = "p"', 'probability = "p"\nprobability_of = "treatment"'),
        "study.toml: line 6, key 'columns.probability_of': must be 'action taken' or 'sending'; got 'treatment'",
    ),
    Mistake(
        "A way of choosing actions that does not exist",
        add('[collection]\npolicy = "bandit"\n'),
        "study.toml: line 27, key 'collection.policy': must be 'fixed', 'own', 'pooled' or 'unknown'; got 'bandit'",
    ),
    Mistake(
        "Updates of a fixed policy",
        add('[collection]\npolicy = "fixed"\nupdates = [7]\n'),
        'study.toml: line 26, key \'collection\': a fixed policy has no updates; leave them out, or write policy = "own" or "pooled"',
    ),
    Mistake(
        "Updates that are not times",
        add('[collection]\npolicy = "own"\nupdates = ["every Monday"]\n'),
        "study.toml: line 28, key 'collection.updates': ['every Monday'] is not a list of times; write [3, 10] in the unit of the time column, or ISO 8601 ([\"2026-03-01T04:00:00\"])",
    ),
    Mistake(
        "The probability of sending with three actions",
        lambda: sf.Study.parse(
            STUDY.replace('probability = "p"', 'probability = "p"\nprobability_of = "sending"').replace(
                'column = "sent"', 'column = "sent"\nnames = ["nothing", "walk", "rest"]'
            )
        ),
        "study.toml: line 6, key 'columns.probability_of': 'sending' says nothing about which of several actions was sent; log the probability of the action taken",
    ),
    Mistake(
        "A transform that does not exist",
        key("log(x + 0.5)", "ln(x)"),
        "study.toml: line 22, key 'outcome.transform': 'ln(x)' is not a transform; write 'none', 'sqrt', or 'log(x + 0.5)' with your number",
    ),
    Mistake(
        "A method with a typing mistake",
        key('"ro-accb"', '"ro-acb"'),
        "study.toml: line 25, key 'method.name': there is no method 'ro-acb' (did you mean 'ro-accb'?); choose from ['linucb', 'accb', 'saccb', 'filter-linucb', 'filter-accb', 'filter-saccb', 'ro-linucb', 'ro-accb', 'ro-saccb', 'hb-linucb', 'hb-accb', 'hb-saccb', 'ahead', 'ro-ahead', 'hb-ahead', 'ts', 'ro-ts', 'hb-ts', 'recommended']",
    ),
    Mistake(
        "A method in capitals",
        key('"ro-accb"', '"RO-ACCB"'),
        "study.toml: line 25, key 'method.name': there is no method 'RO-ACCB' (did you mean 'ro-accb'?); choose from ['linucb', 'accb', 'saccb', 'filter-linucb', 'filter-accb', 'filter-saccb', 'ro-linucb', 'ro-accb', 'ro-saccb', 'hb-linucb', 'hb-accb', 'hb-saccb', 'ahead', 'ro-ahead', 'hb-ahead', 'ts', 'ro-ts', 'hb-ts', 'recommended']",
    ),
    Mistake(
        "A parameter with a typing mistake",
        add("[method.parameters]\ntua = 2\n"),
        "study.toml: line 27, key 'method.parameters.tua': there is no parameter 'tua' (did you mean 'tau'?); there are ['rule', 'critic', 'pooling', 'horizon', 'filter', 'choice', 'baseline', 'critic_penalty', 'penalty_units', 'penalize_intercept', 'forgetting', 'centre_actions', 'critic_variables', 'policy_variables', 'actor_penalty', 'tau', 'refresh_threshold']",
    ),
    Mistake(
        "A parameter that is a word",
        add('[method.parameters]\ntau = "big"\n'),
        "study.toml: line 27, key 'method.parameters.tau': tau is 'big'; it must be a number",
    ),
    Mistake(
        "A parameter below its limit",
        add("[method.parameters]\ntau = -1\n"),
        "study.toml: line 27, key 'method.parameters.tau': tau is -1; it must be a finite number above 0",
    ),
    Mistake(
        "A critic that does not exist",
        add('[method.parameters]\ncritic = "huber"\n'),
        "study.toml: line 27, key 'method.parameters.critic': there is no critic 'huber'; choose from ['ridge', 'capped', 'high-breakdown', 'random-forest', 'gradient-boosting', 'capped-random-forest', 'capped-gradient-boosting']",
    ),
    Mistake(
        "A pooling that does not exist",
        key('name = "ro-accb"', 'name = "ro-accb"\npooling = "everyone"'),
        "study.toml: line 26, key 'method.pooling': there is no pooling 'everyone' (did you mean 'person'?); choose from ['person', 'all', 'partial']",
    ),
    Mistake(
        "A forgetting rate above 1",
        key('name = "ro-accb"', 'name = "ro-accb"\nforgetting = 1.5'),
        "study.toml: line 26, key 'method.forgetting': forgetting is 1.5; it is above 0 and at most 1: with 0.99 the decision point 100 before the participant's last one counts 0.37 times, with 1 all count alike",
    ),
    Mistake(
        "A forgetting rate in words",
        key('name = "ro-accb"', 'name = "ro-accb"\nforgetting = "slowly"'),
        "study.toml: line 26, key 'method.forgetting': must be a number; got 'slowly'",
    ),
    Mistake(
        "Forgetting with a critic that cannot",
        key('name = "ro-accb"', 'name = "accb"\nforgetting = 0.99\n[method.parameters]\ncritic = "random-forest"'),
        "study.toml: line 26, key 'method.forgetting': forgetting weighs decision points, which the random forest does not; take critic = 'capped', 'ridge' or 'high-breakdown', or leave forgetting out",
    ),
    Mistake(
        "A random walk in other words",
        key('name = "ro-accb"', 'name = "ro-accb"\npooling = "partial"\nrandom_walk = "slow"'),
        "study.toml: line 27, key 'method.random_walk': random_walk is 'slow'; it is 'estimate', or the variance of a step from one decision point to the next as a share of that between people, such as 0.005",
    ),
    Mistake(
        "A random walk of people who share nothing",
        key('name = "ro-accb"', 'name = "ro-accb"\nrandom_walk = "estimate"'),
        "study.toml: line 26, key 'method.random_walk': 'random_walk' is a parameter of pooling = 'partial', and here pooling = 'person'; choose that pooling or leave random_walk out",
    ),
    Mistake(
        "A random walk that also forgets",
        key('name = "ro-accb"', 'name = "ro-accb"\npooling = "partial"\nrandom_walk = 0.01\nforgetting = 0.99'),
        "study.toml: line 27, key 'method.random_walk': random_walk forgets by itself, as fast as people change; leave forgetting out",
    ),
    Mistake(
        "A random walk with a prior",
        key(
            'name = "ro-accb"',
            'name = "ts"\npooling = "partial"\nrandom_walk = 0.01\n[method.prior]\nsend = { scale = 1.0 }',
        ),
        "study.toml: line 28, key 'method.prior': it is of a population whose people do not change; leave the prior or random_walk out",
    ),
    Mistake(
        "Probability limits the wrong way round",
        add("[probability_limits]\nminimum = 0.9\nmaximum = 0.1\n"),
        "study.toml: line 26, key 'probability_limits': minimum 0.9 is above maximum 0.1",
    ),
    Mistake(
        "A separator of two signs",
        add('[file]\nseparator = ", "\n'),
        "study.toml: line 27, key 'file.separator': must have at most 1 character; got ', '",
    ),
    Mistake(
        "A decimal sign that does not exist",
        add('[file]\ndecimal = ";"\n'),
        "study.toml: line 27, key 'file.decimal': must be '.' or ','; got ';'",
    ),
    Mistake(
        "An encoding that does not exist",
        add('[file]\nencoding = "windows"\n'),
        "study.toml: line 27, key 'file.encoding': there is no encoding 'windows'; write 'utf-8', 'cp1252' or 'utf-16'",
    ),
    Mistake(
        "A time format without a day",
        add('[file]\ntime_format = "dd.mm.yyyy"\n'),
        "study.toml: line 27, key 'file.time_format': 'dd.mm.yyyy' does not say where day and month stand; write it like '%d.%m.%Y %H:%M'",
    ),
    Mistake(
        "A trial without a column of availability",
        lambda: sf.Study.parse(STUDY.replace('available = "available"\n', "") + "[trial]\n"),
        "study.toml: line 1, key 'columns.available': a study with a [trial] names this column; write available = 'available'",
    ),
    Mistake(
        "A trial that logs the probability of sending",
        lambda: sf.Study.parse(
            STUDY.replace('probability = "p"', 'probability = "p"\nprobability_of = "sending"') + "[trial]\n"
        ),
        "study.toml: line 6, key 'columns.probability_of': a trial logs the probability of the action taken; leave this key out",
    ),
    Mistake(
        "An update at a time that does not exist",
        add('[trial]\nupdate_time = "25:00"\n'),
        "study.toml: line 27, key 'trial.update_time': '25:00' is not a time of day; write '03:00', or 'never'",
    ),
    Mistake(
        "A time zone that does not exist",
        add('[trial]\ntime_zone = "Zurich"\n'),
        "study.toml: line 27, key 'trial.time_zone': there is no time zone 'Zurich'; write one like 'Europe/Zurich'",
    ),
    Mistake(
        "A warm-up outside the limits",
        add("[probability_limits]\nminimum = 0.6\n[trial]\n"),
        "study.toml: line 28, key 'trial.warm_up_probability': 0.5 is outside the probability limits 0.6 to 1",
    ),
]
