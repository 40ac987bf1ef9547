import numpy as np

from surefoot.experiments.engine import render_page
from surefoot.experiments.paper import SCENES, Settings
from surefoot.experiments.paper_report import Entry, Table, list_tables, stand_apart
from tests.experiments.test_paper import REPLICATES, as_the_paper_says, make_results


def test_the_better_is_bold_in_the_page():
    table = Table("ElrAR at ψ = 4 %", ["method", "ν = 1"], [[Entry("a_b"), Entry("1 ± 2", bold=True)]])
    page = render_page("paper.md", tables=[table, table])
    expected = "**ElrAR at ψ = 4 %**\n\n| method | ν = 1 |\n|---|---:|\n| a_b | **1 ± 2** |"
    assert page == f"{expected}\n\n{expected}"


def test_sweeps_are_methods_by_settings_with_the_better_in_bold():
    settings = Settings(experiments=("s2", "s3", "s4"), replicates=REPLICATES)
    tables = list_tables(make_results(as_the_paper_says, settings), settings)
    assert [len(group) for group in tables.values()] == [3, 3, 3]
    shares = tables["s2"][0]
    assert shares.header == ["method", *(f"ψ = {percent} %" for percent in range(10))]
    assert [row[0].text for row in shares.rows] == ["linucb", "ro-linucb", "accb", "ro-accb", "saccb", "ro-saccb"]
    by_name = {row[0].text: row[1:] for row in shares.rows}
    assert all(entry.bold for entry in by_name["ro-accb"][1:])
    assert not any(entry.bold for entry in by_name["accb"][1:])


def test_the_better_is_marked_only_where_intervals_part():
    """All cells share noise of standard deviation 1 over 6 replicates: 0.5 more is not surely more, 20 more is."""
    settings = Settings(experiments=("s2", "s4"), replicates=REPLICATES)
    ahead = dict(zip(SCENES, (0.5, 20.0, 20.0), strict=True))
    made = make_results(lambda scene, experiment, cell: ahead[scene] * cell.method.startswith("ro-"), settings)
    for alike, apart, _ in list_tables(made, settings).values():
        assert not any(entry.bold for row in alike.rows for entry in row)
        assert all(entry.bold == row[0].text.startswith("ro-") for row in apart.rows for entry in row[1:])
        assert alike.caption.endswith("ElrAR (bold where the 95 % intervals do not overlap)")


def test_of_several_the_best_parts_from_all_others():
    noise = np.array([-1.0, 0.0, 1.0])
    assert stand_apart([noise, noise + 10, noise + 9]) == [False, False, False]
    assert stand_apart([noise, noise + 10, noise + 1]) == [False, True, False]
