from surefoot.experiments.paper_tables import Entry, Table, all_tables
from surefoot.experiments.settings import Settings
from tests.experiments.test_claims import REPLICATES, as_the_paper_says, results


def test_markdown_and_latex():
    table = Table("t", "ElrAR at ψ = 4 %", ["method", "ν = 1"], [[Entry("a_b"), Entry("1 ± 2", bold=True)]])
    assert table.markdown() == "**ElrAR at ψ = 4 %**\n\n| method | ν = 1 |\n|---|---:|\n| a_b | **1 ± 2** |\n"
    latex = table.latex()
    assert r"\caption{ElrAR at $\psi$ = 4 \%}" in latex
    assert r"a\_b & \textbf{1 $\pm$ 2} \\" in latex
    assert latex.count("{") == latex.count("}")


def test_sweeps_are_methods_by_settings_with_the_better_in_bold():
    settings = Settings(experiments=("s2", "s3", "s4"), replicates=REPLICATES)
    tables = all_tables(results(as_the_paper_says, settings), settings)
    assert [len(group) for group in tables.values()] == [3, 3, 3]
    shares = tables["s2"][0]
    assert shares.header == ["method", *(f"ψ = {percent} %" for percent in range(10))]
    assert [row[0].text for row in shares.rows] == ["linucb", "ro-linucb", "accb", "ro-accb", "saccb", "ro-saccb"]
    by_name = {row[0].text: row[1:] for row in shares.rows}
    assert all(entry.bold for entry in by_name["ro-accb"][1:])
    assert not any(entry.bold for entry in by_name["accb"][1:])
