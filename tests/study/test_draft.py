"""`init` makes state variables only of what was known before the decision, and says what it left out."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import surefoot as sf
from surefoot.fitting import fit_study
from surefoot.study.draft import draft_study

N = 400


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    p = rng.uniform(0.5, 0.8, N)
    sent = (rng.random(N) < p).astype(int)
    steps = rng.exponential(200, N).round()
    temperature = rng.normal(15, 5, N)
    temperature[::40] = -99
    steps[::50] = 9999
    place = np.where(rng.random(N) < 0.5, "home", "work").astype(object)
    place[::20] = "Home"
    return {
        "": np.arange(N),
        "participant": np.repeat(np.arange(10), 40),
        "time": np.tile(np.arange(40), 10),
        "mood": rng.integers(0, 11, N),
        "temperature": temperature,
        "place": place,
        "sent": sent,
        "sent_text": np.where(sent == 1, "walk", "none"),
        "dose": np.where(sent == 1, rng.integers(1, 4, N), 0),
        "p_sent": p,
        "outcome": steps,
        "reward_km": steps * 0.0007,
        "steps_after": rng.exponential(200, N),
    }


def write(table, path):
    pyarrow.csv.write_csv(pa.table({name: pa.array(list(values)) for name, values in table.items()}), path)
    return path


def test_what_is_no_state_is_left_out_with_the_reason(table, tmp_path):
    text = draft_study(write(table, tmp_path / "logs.csv")).text
    study = sf.Study.parse(text)
    assert set(study.state) == {"mood", "temperature", "place"}
    for name, reason in (
        ("", "counts the rows"),
        ("sent_text", "says which action was taken"),
        ("dose", "says which action was taken"),
        ("reward_km", "says what the outcome was (correlation 1.000 beyond the past)"),
        ("steps_after", "is called like something that is known only after the decision"),
    ):
        assert f'# Left out: "{name}", which {reason}.' in text
    assert study.columns.probability == "p_sent"
    assert study.columns.probability_of == "sending"
    assert study.collection.policy == "unknown" and '[collection]\npolicy = "unknown"' in text
    assert '# Decided by the mean weights, which must be 1: with "sending" nothing ' in text


def test_codes_for_missing_are_proposed_and_read_as_missing(table, tmp_path):
    path = write(table, tmp_path / "logs.csv")
    text = draft_study(path).text
    study = sf.Study.parse(text)
    assert study.state["temperature"].missing == (-99,)
    assert study.outcome.missing == (9999,)
    assert "# Check: -99 in 10 rows, apart from everything else, seems to stand for missing." in text
    logs = study.read(path).logs
    assert np.isnan(logs.state[:, logs.state_names.index("temperature")]).sum() == 10
    assert np.isnan(logs.outcome).sum() == 8
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), tmp_path / "logs.parquet")
    again = study.read(tmp_path / "logs.parquet").logs
    np.testing.assert_array_equal(again.outcome, logs.outcome)


def test_levels_that_differ_in_case_are_one(table, tmp_path):
    path = write(table, tmp_path / "logs.csv")
    text = draft_study(path).text
    study = sf.Study.parse(text)
    assert set(study.state["place"].levels) == {"home", "work"}
    assert '# Read as one with these, which differ in case alone: "Home".' in text
    assert not np.isnan(study.read(path).logs.state[:, -1]).any()
    # Unless the study has both.
    both = study.state["place"].model_copy(update={"levels": ("home", "work", "Home")})
    assert study.model_copy(update={"state": {"place": both}}).read(path).logs.state[:, 1].sum() == 20


def test_fit_warns_of_such_columns_where_the_study_has_them(table, tmp_path):
    path = write(table, tmp_path / "logs.csv")
    text = '[columns]\nparticipant = "participant"\ntime = "time"\n'
    text += '[state.dose]\n[state.temperature]\n[actions]\ncolumn = "sent"\n'
    with pytest.warns(sf.FitWarning) as caught:
        fitted = fit_study(path, sf.Study.parse(text))
    messages = {str(warning.message) for warning in caught}
    (leak,) = (text for text in messages if "leaks" in text)
    assert "'dose' says which action was taken" in leak
    (suspect,) = (text for text in messages if "suspect columns" in text)
    assert "state variable 'temperature' holds -99 again and again" in suspect
    assert "outcome 'outcome' holds 9999 again and again" in suspect
    assert set(fitted.manifest["warnings"]) >= messages


@pytest.mark.parametrize(
    ("p", "convention", "words"),
    [
        (lambda table: table["p_sent"], "sending", "Decided by the mean weights"),
        (lambda table: np.where(table["sent"] == 1, table["p_sent"], 1 - table["p_sent"]), "action taken", "Decided by"),
        (lambda table: np.full(N, 0.2), "sending", "neither fits"),
    ],
)
def test_the_logs_decide_what_the_probability_is_of(p, convention, words, table, tmp_path):
    draft = draft_study(write({**table, "p_sent": p(table)}, tmp_path / "logs.csv"))
    text = draft.text
    assert any("the mean weight of" in warning for warning in draft.warnings) == (words == "neither fits")
    assert sf.Study.parse(text).columns.probability_of == convention
    assert words in text


def test_a_fair_coin_fits_either_way(table, tmp_path):
    rng = np.random.default_rng(1)
    fair = {**table, "p_sent": np.full(N, 0.5), "sent": (rng.random(N) < 0.5).astype(int)}
    text = draft_study(write(fair, tmp_path / "logs.csv")).text
    assert "# Check: the logs fit either way" in text
    assert sf.Study.parse(text).columns.probability_of == "action taken"
