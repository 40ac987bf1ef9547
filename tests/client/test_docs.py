"""The page about the client runs as it is written."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_the_page_runs(served, tmp_path, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.setenv("SUREFOOT_URL", served.url)
    monkeypatch.setenv("SUREFOOT_KEY", served.app)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102 - our own page
    assert re.fullmatch(r"(nothing|send) \(0.5, 0.5\) warm-up\nrecorded\n", capsys.readouterr().out)
