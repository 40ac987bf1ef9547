import numpy as np
import pytest

import surefoot as sf
from surefoot.data.column_kinds import Category, Number, YesNo
from surefoot.explain.variables import REFERENCE, find_variables


def test_a_study_says_what_the_variables_are(mixed, study):
    found = find_variables(mixed, study.variable_kinds)
    assert [(one.name, one.kind.name, one.places) for one in found] == [
        ("temperature", "number", (0,)),
        ("weekend", "yes/no", (1,)),
        ("location", "category", (2, 3)),
    ]
    assert found[0].kind == Number(centre=10.0, scale=5.0)


def test_without_a_study_they_are_guessed_from_names_and_values(mixed):
    found = find_variables(mixed, None)
    assert [(one.name, one.places) for one in found] == [("temperature", (0,)), ("weekend", (1,)), ("location", (2, 3))]
    assert [one.kind for one in found] == [Number(), YesNo(), Category(levels=(REFERENCE, "home", "work"))]


@pytest.mark.parametrize("spoil", [lambda home, work: (home, home), lambda home, work: (home * 0.5, work)])
def test_columns_that_can_be_1_together_or_are_no_0_and_1_are_no_category(mixed, spoil):
    state = mixed.state.copy()
    state[:, 2], state[:, 3] = spoil(state[:, 2], state[:, 3])
    found = find_variables(mixed.with_values(state=state), None)
    assert [one.name for one in found] == ["temperature", "weekend", "location=home", "location=work"]


def test_what_the_study_does_not_know_is_guessed_beside_it(mixed, study):
    kinds = {name: kind for name, kind in study.variable_kinds.items() if name != "weekend"}
    assert [one.name for one in find_variables(mixed, kinds)] == ["temperature", "weekend", "location"]
    assert isinstance(find_variables(mixed, kinds)[1].kind, YesNo)


def test_settings_never_hold_two_levels_at_once(mixed, study):
    location = find_variables(mixed, study.variable_kinds)[2]
    settings = location.kind.list_settings(location.take(mixed.state))
    assert [(one.label, one.columns) for one in settings] == [("other", (0, 0)), ("home", (1, 0)), ("work", (0, 1))]
    # A level that was never logged is not asked about.
    seldom = location.take(mixed.state)[mixed.state[:, 3] == 0]
    assert [one.label for one in location.kind.list_settings(seldom)] == ["other", "home"]
    assert (
        location.kind.describe_values(np.array([[1.0, 0.0], [0.0, 0.0]]))
        == "other 50 %, home 50 %, work 0 % of decision points"
    )


def test_a_number_with_few_values_is_put_to_each_of_them():
    number = Number(centre=1.0, scale=2.0)
    assert [(one.label, one.shown) for one in number.list_settings(np.array([[0.0], [1.0], [0.0]]))] == [("1", 1), ("3", 3)]
    values = np.random.default_rng(0).standard_normal((400, 1))
    grid = number.list_settings(values)
    assert len(grid) == 15
    assert {one.label for one in grid} == {""}
    assert grid[0].columns[0] == np.quantile(values, 0.05)
    assert grid[0].shown == 1 + 2 * grid[0].columns[0]


def test_a_kind_that_says_nothing_is_moved_among_what_was_logged():
    class Odd(sf.data.column_kinds.VariableKind):
        read = from_json = recognize = None

    logged = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert [one.columns for one in Odd().list_settings(logged)] == [(0.0, 1.0), (1.0, 0.0)]
