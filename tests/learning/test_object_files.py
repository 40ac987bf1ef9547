"""Fitted methods in files: the same after loading, and nothing but numbers inside."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.learning.object_files import load_objects, save_objects


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=40, seed=0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("ro-accb", {}),
        ("linucb", {"exploration": 2.0}),
        ("filter-accb", {}),
        ("hb-ts", {"pooling": "all"}),
        ("ts", {"pooling": "partial"}),
        ("hb-ahead", {}),
        ("ahead", {"pooling": "partial"}),
        ("recommended", {}),
    ],
)
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_a_loaded_method_is_the_one_that_was_saved(logs, tmp_path, name, parameters):
    fitted = sf.method(name, **parameters).fit(logs)
    fitted.save(tmp_path / "fitted.npz")
    loaded = sf.Method.load(tmp_path / "fitted.npz")
    assert loaded.get_params() == fitted.get_params()
    assert_array_equal(loaded.predict_proba(logs), fitted.predict_proba(logs))
    assert_array_equal(loaded.weights_, fitted.weights_)
    assert str(loaded.summary()) == str(fitted.summary()) and repr(loaded) == repr(fitted)
    assert loaded.logs_.state.flags.f_contiguous and not loaded.logs_.state.flags.writeable
    assert (loaded.outlook_ is None) == (fitted.outlook_ is None)


def test_a_loaded_method_goes_on(logs, tmp_path):
    first = sf.method("ts").fit(logs[logs.time < 30])
    first.save(tmp_path / "first.npz")
    later = logs[logs.time >= 30]
    updated = sf.Method.load(tmp_path / "first.npz").update(later)
    assert_array_equal(updated.predict_proba(later), first.update(later).predict_proba(later))


def test_what_cannot_be_saved_or_read_is_refused(logs, tmp_path):
    with pytest.raises(sf.NotFittedError):
        sf.method("accb").save(tmp_path / "unfitted.npz")
    with pytest.raises(sf.InputError, match=r"saved as \.npz"):
        sf.method("accb").fit(logs).save(tmp_path / "fitted.pkl")
    with pytest.raises(sf.InputError, match="no such file"):
        sf.Method.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("nothing")
    with pytest.raises(sf.InputError, match="not a file of a fitted method"):
        sf.Method.load(tmp_path / "text.npz")
    with pytest.raises(sf.InputError, match="cannot be saved"):
        save_objects(tmp_path / "code.npz", {"code": json.JSONDecoder()})
    assert list(tmp_path.glob("*.npz")) == [tmp_path / "text.npz"]


@pytest.mark.parametrize(
    "name", ["os:system", "json:JSONDecoder", "surefoot.service.app:App", "surefoot.learning.methods:method"]
)
def test_a_file_cannot_name_other_code(tmp_path, name):
    content = {"format": "surefoot-method-1", "fitted": {"class": name, "fields": {}}}
    np.savez(tmp_path / "file.npz", content=np.frombuffer(json.dumps(content).encode(), dtype=np.uint8))
    with pytest.raises(sf.InputError, match="which is not known"):
        load_objects(tmp_path / "file.npz")
