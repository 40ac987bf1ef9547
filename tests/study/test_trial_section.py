import re
from datetime import time

import pytest

from surefoot import InputError, Study
from tests.service.support.trials import STUDY


def test_the_trial_section_has_defaults_for_everything():
    study = Study.parse(STUDY.split("[trial]")[0] + "[trial]\n")
    assert study.trial.update_at == time(3) and study.trial.guard_rails.max_removed == 0.2
    assert Study.parse(STUDY.split("[trial]")[0]).trial is None


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("update_time = ", "update_tmie = ", "trial.update_tmie", "did you mean 'update_time'"),
        ("max_removed", "max_remvoed", "trial.guard_rails.max_remvoed", "did you mean 'max_removed'"),
        ('"never"', '"25:00"', "trial.update_time", "not a time of day"),
        ('"never"', '"never"\ntime_zone = "Mars"', "trial.time_zone", "no time zone"),
        ("fallback_probability = 0.25", "fallback_probability = 0.95", "trial.fallback_probability", "limits 0.1 to 0.9"),
        ('available = "available"\n', "", "columns.available", "names this column"),
    ],
)
def test_mistakes_name_the_key(old, new, key, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        Study.parse(STUDY.replace(old, new))
    assert f"key '{key}'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[monitoring]\nharmm = 1\n", "monitoring.harmm", "did you mean 'harm'"),
        ("[monitoring]\nharm = -1\n", "monitoring.harm", "greater than or equal to 0"),
        ("[monitoring]\nburden = 0\n", "monitoring.burden", "greater than 0"),
        ('[monitoring]\nharm_against = "always"\n', "monitoring.harm_against", "'never' or 'coin'"),
        ('[monitoring]\nsequence = "bounded"\n', "monitoring.sequence", "write [outcome] range = [lowest, highest]"),
    ],
)
def test_mistakes_of_monitoring_name_the_key(text, key, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        Study.parse(STUDY + text)
    assert f"key '{key}'" in str(caught.value)


def test_only_a_trial_is_monitored():
    with pytest.raises(InputError, match="key 'monitoring': only a trial is monitored"):
        Study.parse(STUDY.split("[trial]")[0] + "[monitoring]\nharm = 1\n")


def test_a_bounded_sequence_takes_the_range_of_the_reward():
    text = STUDY.replace('column = "steps"', 'column = "steps"\nrange = [0, 400]\ntransform = "log(x + 1)"')
    low, high = Study.parse(text + '[monitoring]\nsequence = "bounded"\n').outcome.limits
    assert low == 0 and high == pytest.approx(5.994, abs=1e-3)
    for transform in ("log(x)", "log(x - 1)"):
        assert Study.parse(text.replace("log(x + 1)", transform)).outcome.limits is None
