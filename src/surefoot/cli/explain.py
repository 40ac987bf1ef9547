"""`surefoot explain`: a policy in words, numbers and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, LoadedStudy, Logs, StudyFile, console, print_json, write_outputs


@app.command()
def explain(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    html: HtmlFile = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the policy card as Markdown.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain the study's policy: what it does, whether that agrees with the effects, whom it treats when."""
    from surefoot.explain import explain as explain_fit
    from surefoot.explain.summary import print_explanation

    studied = LoadedStudy.of(logs, study)
    fitted = studied.fitted()
    found = explain_fit(fitted, study=studied.study, audit=studied.audit_fit(fitted))
    title = f"Policy card: {logs.name}"
    texts: dict[Path | None, str] = {markdown: found.card(title).markdown()} if markdown else {}
    if html:
        texts[html] = found.to_html(title=title, source=studied.source)
    with write_outputs(texts):
        if as_json:
            print_json(found.to_dict())
        else:
            print_explanation(found, console())
