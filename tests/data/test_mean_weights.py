"""Logged probabilities are held against the actions: every action's mean weight is 1, or they mean something else."""

import numpy as np
import pytest

import surefoot as sf
from surefoot import InputError, Study
from surefoot.data.mean_weights import FITS, SURE, MeanWeights

STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "p"\n[state.mood]\n'


def table(people=20, points=40, seed=0, send=lambda rng, n: rng.uniform(0.5, 0.8, n)):
    """A log that holds the probability of sending in `p`, as logs usually do, and of the action taken in `p_taken`."""
    rng = np.random.default_rng(seed)
    n = people * points
    p = send(rng, n)
    action = (rng.random(n) < p).astype(int)
    return {
        "participant": np.repeat(np.arange(people), points),
        "time": np.tile(np.arange(points), people),
        "mood": rng.normal(size=n),
        "action": action,
        "outcome": rng.normal(size=n),
        "p": p,
        "p_taken": np.where(action == 1, p, 1 - p),
    }


def read(data, probability="p", probability_of="action taken", **changes):
    from surefoot.data.frames import make_frame

    frame = make_frame({**data, **changes}, "pyarrow")
    roles = {"participant": "participant", "time": "time", "state": ["mood"], "action": "action", "outcome": "outcome"}
    return sf.Trajectories.from_frame(frame, probability=probability, probability_of=probability_of, **roles)


def test_the_mean_weight_of_every_action_is_one_where_the_probability_is_that_of_the_action_taken():
    weights = read(table(), "p_taken").mean_weights()
    judged = weights.judge("action taken")
    for mean, error in zip(judged.mean, judged.error, strict=True):
        assert mean == pytest.approx(1, abs=4 * error)
    assert weights.problem() is None


def test_the_standard_error_is_that_of_a_mean_over_people():
    """Against its definition, and close to the spread of the mean weight over many logs."""
    data = table(seed=3)
    judged = read(data, "p_taken").mean_weights().judge("action taken")
    weight = np.where(data["action"] == 0, 1 / data["p_taken"], 0.0)
    sums = (weight - weight.mean()).reshape(20, 40).sum(axis=1)
    assert judged.mean[0] == pytest.approx(weight.mean())
    implied = np.sqrt(np.sum(1 / (1 - data["p"]) - 1)) / 800
    assert judged.error[0] == pytest.approx(max(np.sqrt(20 / 19 * sums @ sums) / 800, implied))
    means = [read(table(seed=seed), "p_taken").mean_weights().means("action taken")["nothing"] for seed in range(60)]
    assert np.std(means) == pytest.approx(implied, rel=0.3)


def test_parts_add_up():
    data = table()
    whole = read(data, "p_taken").mean_weights()
    halves = [{name: values[slice_] for name, values in data.items()} for slice_ in (slice(0, 400), slice(400, None))]
    parts = [MeanWeights.from_dict(read(half, "p_taken").mean_weights().to_dict()) for half in halves]
    added = parts[0] + parts[1]
    for reading in ("action taken", "sending"):
        np.testing.assert_allclose(added.sums[reading], whole.sums[reading])


def test_probabilities_of_sending_given_as_those_of_the_action_taken_are_refused_with_the_remedy():
    logs = read(table())
    with pytest.raises(InputError, match=r"mean weight of 'nothing' is 0\.\d+ ± 0\.\d+ over 20 people, where it must be 1"):
        logs.check_probabilities()
    with pytest.raises(InputError, match=r'write columns.probability_of = "sending"'):
        sf.evaluation.evaluate(logs, {"send": sf.policies.fixed([0, 1])})


def test_a_study_says_what_the_probability_is_of(tmp_path):
    import pyarrow.csv as pc

    from surefoot.data.frames import make_frame

    data = table()
    data["p"][0], data["action"][0] = 0.0, 0
    pc.write_csv(make_frame(data, "pyarrow"), tmp_path / "logs.csv")
    sending = Study.parse(STUDY.replace('"p"\n', '"p"\nprobability_of = "sending"\n'))
    logs = sending.read(tmp_path / "logs.csv").logs
    np.testing.assert_allclose(logs.probability[1:], data["p_taken"][1:])
    assert logs.probability[0] == 1
    logs.check_probabilities()
    # Out again as it came in.
    np.testing.assert_allclose(logs.to_frame()["p"], data["p"], atol=1e-15)
    with pytest.raises(InputError, match=r"line 2, column 'p', participant 0: probability 0 is outside \(0, 1\]"):
        Study.parse(STUDY).read(tmp_path / "logs.csv")
    text = (tmp_path / "logs.csv").read_text().replace("\n0,0,", "\n0,0,", 1)
    (tmp_path / "logs.csv").write_text(text)
    wrong = Study.parse(STUDY.replace('"p"\n', '"p_taken"\nprobability_of = "sending"\n'))
    with pytest.raises(InputError, match=r'write columns.probability_of = "action taken"'):
        wrong.read(tmp_path / "logs.csv").logs.check_probabilities()


def test_swapped_probabilities_of_the_design_are_refused_with_their_order(tmp_path):
    import pyarrow.parquet as pq

    from surefoot.data.frames import make_frame

    data = table(send=lambda rng, n: np.full(n, 0.6))
    pq.write_table(make_frame(data, "pyarrow"), tmp_path / "logs.parquet")
    text = STUDY.replace('probability = "p"\n', "")
    right = Study.parse(text + "[actions]\nprobabilities = [0.4, 0.6]\n").read(tmp_path / "logs.parquet").logs
    right.check_probabilities()
    swapped = Study.parse(text + "[actions]\nprobabilities = [0.6, 0.4]\n").read(tmp_path / "logs.parquet").logs
    with pytest.raises(InputError, match=r"they look swapped: write actions.probabilities = \[0.4, 0.6\]"):
        swapped.check_probabilities()


def three_actions(seed=0, n=2000):
    rng = np.random.default_rng(seed)
    each = rng.dirichlet([4, 2, 2], n)
    action = (rng.random(n)[:, None] > each.cumsum(axis=1)).sum(axis=1)
    return each, action


def test_several_actions_are_refused_only_where_their_weights_are_too_large():
    each, action = three_actions()
    data = table(people=20, points=100)
    frame = {**data, "action": action, "taken": each[np.arange(2000), action]}
    roles = {"participant": "participant", "time": "time", "state": ["mood"], "action": "action", "outcome": "outcome"}
    from surefoot.data.frames import make_frame

    read3 = lambda **changes: sf.Trajectories.from_frame(  # noqa: E731
        make_frame({**frame, **changes}, "pyarrow"), probability="taken", probability_of="action taken", actions=3, **roles
    )
    read3().check_probabilities()
    # An action that could not be taken half of the time: its mean weight is a half, and nothing is wrong.
    read3(taken=np.minimum(frame["taken"] * 2, 1)).check_probabilities()
    with pytest.raises(InputError, match="where it must be 1; log the probability with which"):
        read3(taken=frame["taken"] / 3).check_probabilities()


def test_right_probabilities_are_not_refused_by_chance():
    """Also where they are small, depend on the past, and where an action never happened."""
    for seed in range(60):
        data = table(people=8 + seed % 10, seed=seed, send=lambda rng, n: rng.choice([0.02, 0.3, 0.5, 0.98], n))
        weights = read(data, "p_taken").mean_weights()
        assert weights.worst("action taken") < SURE
    never = table(send=lambda rng, n: np.full(n, 0.001))
    never["action"][:] = 0
    assert read(never, p_taken=1 - never["p"], probability="p_taken").mean_weights().worst("action taken") < FITS


def test_fit_warns_of_them_over_all_parts(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from surefoot.data.frames import make_frame
    from surefoot.fitting import fit_study, parts

    monkeypatch.setattr(parts, "PART_ROWS", 100)
    pq.write_table(make_frame(table(), "pyarrow"), tmp_path / "logs.parquet")
    with pytest.warns(sf.FitWarning, match=r"over 20 people, where it must be 1; they look like those of sending"):
        fit_study(tmp_path / "logs.parquet", Study.parse(STUDY), tmp_path / "fitted")


def test_a_tiny_probability_is_judged_without_overflow():
    data = table()
    data["p_taken"][:3] = (1e-299, 5e-324, 1e-160)
    logs = read(data, "p_taken")
    weights = logs.mean_weights()
    assert np.isfinite(weights.sums["action taken"]).all()
    assert weights.problem() is None
    logs.check_probabilities()
