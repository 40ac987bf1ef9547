import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from surefoot import InputError, Study, critics, pooling, rules

STUDY = """\
# A comment on the first line
[columns]
participant = "participant"
time = "time"
probability = "p"

[state.weather]
scaling = { centre = 0.5, scale = 2 }

[state.engagement]
use = "critic"

[state."dec.place"]
kind = "category"
levels = [
  "other",
  "home",
  "work",
]
use = "policy"

[outcome]
column = "steps"
transform = "log(x + 0.5)"

[method]
name = "ro-accb"
pooling = "all"

[method.parameters]
tau = 2
"""


def test_a_study_says_what_its_method_sees():
    study = Study.parse(STUDY)
    assert study.state_names == ("weather", "engagement", "dec.place=home", "dec.place=work")
    assert study.method_name == "ro-accb"
    method = study.method()
    assert isinstance(method.rule, rules.Actor)
    assert (method.critic, method.pooling) == (critics.Capped(tau=2), pooling.Everyone())
    assert method.critic_variables == ("weather", "engagement")
    assert method.policy_variables == ("weather", "dec.place=home", "dec.place=work")
    assert study.outcome.offset == 0.5


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ("tau = 2", "tau = [2]", 31, "method.parameters.tau", "must be a number, text, true or false; got [2]"),
        ("[method.parameters]\ntau = 2", "critic = 3", 30, "method.critic", "must be a name in quotes, or a section"),
        ("[method.parameters]\ntau = 2", "[method.critic]\ntau = [2]", 30, "method.critic", "tau must be a number, text"),
        ("[method.parameters]\ntau = 2", "[method.critic]\nname = 'capped'\ntua = 2", 32, "method.critic.tua", "'tau'"),
        ("tau = 2", "tua = 2", 31, "method.parameters.tua", "did you mean 'tau'"),
        ("tau = 2", "tau = 'two'", 31, "method.parameters.tau", "it must be a number"),
        ("tau = 2", "tau = -1", 31, "method.parameters.tau", "above 0"),
        ("tau = 2", "tau = true", 31, "method.parameters.tau", "it must be a number"),
        ("tau = 2", "policy_variables = 'all'", 31, "method.parameters.policy_variables", "write use = 'critic'"),
        ('"ro-accb"', '"ro-acb"', 27, "method.name", "did you mean 'ro-accb'"),
        ('pooling = "all"', 'poling = "all"', 28, "method.poling", "did you mean 'pooling'"),
        ('pooling = "all"', 'pooling = "al"', 28, "method.pooling", "choose from ['person', 'all', 'partial']"),
        ("scale = 2", "scal = 2", 8, "state.weather.scaling.scal", "did you mean 'scale'"),
        ("scale = 2", "scale = 0", 8, "state.weather.scaling.scale", "greater than 0"),
        ('use = "critic"', 'sue = "critic"', 11, "state.engagement.sue", "did you mean 'use'"),
        ('use = "critic"', "range = [3, 1]", 11, "state.engagement.range", "[lowest, highest]"),
        ('use = "critic"', "range = [3]", 11, "state.engagement.range", "[lowest, highest]"),
        ('use = "critic"', "range = [0, nan]", 11, "state.engagement.range", "[lowest, highest]"),
        ('use = "critic"', 'kind = "category"', 10, "state.engagement", "at least two different levels"),
        ('use = "critic"', 'kind = "yes/no"\nrange = [0, 1]', 10, "state.engagement", "'range' belongs to kind = 'number'"),
        ('use = "policy"', "range = [0, 1]", 13, "state.dec.place", "'range' belongs to kind = 'number'"),
        ("[outcome]", "[outcomes]", 22, "outcomes", "did you mean 'outcome'"),
        ("log(x + 0.5)", "log(y)", 24, "outcome.transform", "is not a transform"),
        ("[columns]", "[column]", 2, "column", "did you mean 'columns'"),
        ('participant = "participant"', "", 2, "columns.participant", "is missing"),
        ('column = "steps"', 'column = "weather"', 7, "state.weather", "known only after the decision"),
        ('column = "steps"', 'column = "time"', 1, "", "named twice"),
        ("[state.weather]", "[state]", 8, "state.scaling.centre", "unknown key"),
        ('column = "steps"', "column = 3", 23, "outcome.column", "must be text in quotes"),
        ("[outcome]", "[actions]\nprobabilities = [0.4, 0.5]\n[outcome]", 22, "actions", "sum to 0.9"),
        ("[outcome]", "[actions]\nprobabilities = [0.4, 0.6]\n[outcome]", 1, "", "keep one"),
        ("[outcome]", "[actions]\nnames = ['a']\n[outcome]", 22, "actions", "at least two"),
        ("[outcome]", "[actions]\nvalues = [1]\n[outcome]", 22, "actions", "one entry for each of the 2 actions"),
        ("[outcome]", "[probability_limits]\nminimum = 1\nmaximum = 0\n[outcome]", 22, "probability_limits", "above max"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_key_its_line_and_a_remedy(old, new, line, key, words):
    assert old in STUDY
    with pytest.raises(InputError, match=re.escape(words)) as refused:
        Study.parse(STUDY.replace(old, new), "trial.toml")
    where = f"key '{key}'" if key else "the study"
    assert str(refused.value).startswith(f"trial.toml: line {line}, {where}: ")


def test_what_is_no_toml_no_text_or_no_file_is_refused(tmp_path):
    path = tmp_path / "study.toml"
    with pytest.raises(InputError, match="surefoot init LOGS --out"):
        Study.load(path)
    path.write_bytes(b"[columns\n")
    with pytest.raises(InputError, match=r"study\.toml: line 1: not TOML"):
        Study.load(path)
    path.write_bytes(b"# \x99\n")
    with pytest.raises(InputError, match="not UTF-8"):
        Study.load(path)
    path.write_bytes(b"\xef\xbb\xbf" + STUDY.replace("\n", "\r\n").encode())
    assert Study.load(path).method_name == "ro-accb"


def test_limits_hold_and_keep_the_proportions_of_the_other_actions():
    study = Study.parse(STUDY + "[probability_limits]\nminimum = 0.2\nmaximum = 0.8\n")
    given = np.array([[1.0, 0.0, 0.0], [0.5, 0.4, 0.1], [0.0, 0.25, 0.75]])
    assert_allclose(study.clip_probabilities(given), [[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6]])
    many = np.concatenate([given, np.random.default_rng(1).dirichlet([1, 1, 1], 50), [[np.nan] * 3]])
    assert_array_equal([study.clip_row(row) for row in many.tolist()], study.clip_probabilities(many))
