from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.headlines import write_headlines
from surefoot.evaluation.page import render_page
from surefoot.reports.reward_units import RewardUnit


@pytest.fixture(scope="module")
def found():
    """Sending adds 0.06 to a reward whose noise is 0.3; doing nothing earns 1."""
    logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=50, seed=0)
    reward = np.random.default_rng(0).normal(1 + 0.06 * logs.action, 0.3)
    return evaluate(logs.with_values(reward=reward), {"mostly": sf.policies.fixed([0.2, 0.8])})


def test_sending_is_contrasted_with_never_sending(found):
    (contrast,) = found.contrasts
    assert (contrast.policy, contrast.other) == ("always", "never")
    always, never = (found.value(name).value for name in ("always", "never"))
    assert_allclose(contrast.difference.value, always.value - never.value)
    # 2,000 independent rewards, half of them with each action: an error of 0.3 · √(4 / 2000).
    assert_allclose(contrast.difference.standard_error, 0.3 * np.sqrt(4 / 2000), rtol=0.15)
    assert contrast.difference.low < 0.06 < contrast.difference.high
    assert found.to_dict()["contrasts"][0]["difference"]["value"] == contrast.difference.value


def test_sentences_have_fitting_digits_and_percent_for_log_rewards(found):
    sentences = write_headlines(replace(found, unit=RewardUnit("steps", "log(x + 0.5)")))
    assert [sentence.split()[0] for sentence in sentences] == ["mostly", "never", "always", "always"]
    change = found.contrasts[0].difference
    assert sentences[-1] == (
        f"always − never: {change.value:.3f} ({change.low:.3f} to {change.high:.3f}), "
        f"about +{100 * np.expm1(change.value):.1f} % steps "
        f"(+{100 * np.expm1(change.low):.1f} % to +{100 * np.expm1(change.high):.1f} %)."
    )
    assert "log(steps + 0.5) per decision point" in sentences[0]
    assert "less than what was done, by 0.0" in sentences[1]
    assert not any("% steps" in sentence for sentence in write_headlines(replace(found, unit=RewardUnit("steps", "sqrt"))))


def test_every_plot_has_a_legend(found, monkeypatch):
    from surefoot.evaluation import page

    drawn = []
    monkeypatch.setattr(page, "inline_svg", lambda figure, description: drawn.append(figure) or "")
    render_page(found, title="Value")
    assert [len(figure.legends) for figure in drawn] == [1, 1, 1]
    assert [text.get_text() for text in drawn[2].legends[0].get_texts()] == ["enough"]
