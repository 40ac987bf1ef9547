import pytest

import surefoot as sf
from surefoot.explain import explain
from surefoot.reports import render


@pytest.fixture(scope="module")
def drawn(mixed, study):
    """The figures of the page, by title."""
    found, figures = explain(sf.method("saccb", pooling="all").fit(mixed), study=study), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "inline_svg", lambda axes, description: figures.append(axes.figure) or "")
        found.to_html()
    return {figure.axes[0].get_title(loc="left"): figure for figure in figures}


def test_forest_plots_have_one_order(drawn):
    titles = ("Policy: what makes it send", "Critic: the effect of sending")
    orders = [[label.get_text() for label in drawn[title].axes[0].get_yticklabels()] for title in titles]
    assert orders[0] == orders[1] == ["temperature", "weekend", "location=home", "location=work", "intercept"]


def test_yes_no_and_levels_are_on_the_axis(drawn):
    ticks = {title: [label.get_text() for label in figure.axes[0].get_xticklabels()] for title, figure in drawn.items()}
    assert ticks["As weekend moves"] == ["no", "yes"]
    assert ticks["As location moves"] == ["other", "home", "work"]


def test_every_plot_has_a_legend_and_bands_say_what_they_are(drawn):
    legends = {title: [text.get_text() for text in figure.legends[0].get_texts()] for title, figure in drawn.items()}
    assert all(legends.values())
    assert legends["As temperature moves"] == ["send", "95 % interval"]
    assert legends["As location moves"] == ["send; bar: 95 % interval"]
    assert legends["Policy: what makes it send"] == ["no difference", "estimates, 95 % interval"]
