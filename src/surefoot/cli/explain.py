"""`surefoot explain`: a policy in words, numbers and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, LoadedStudy, Logs, StudyFile, console, print_json, write_outputs
from surefoot.cli.progress import show_progress


@app.command()
def explain(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    html: HtmlFile = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the policy card as Markdown.")] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Own intervals of all people, not of 400 drawn at random.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain the study's policy: what it does, whether that agrees with the effects, whom it treats when."""
    from surefoot.explain import explain as explain_fit
    from surefoot.explain.coefficients import OWN_PEOPLE
    from surefoot.explain.summary import print_explanation

    studied = LoadedStudy.of(logs, study)
    fitted = studied.fit_method()
    most = None if everybody else OWN_PEOPLE
    with show_progress("explaining", "explained", pause=5.0) as progress:
        audited = studied.audit_fit(fitted)
        explanation = explain_fit(fitted, study=studied.study, audit=audited, progress=progress, most_people=most)
    title = f"Policy card: {logs.name}"
    texts: dict[Path | None, str] = {markdown: explanation.card(title).markdown()} if markdown else {}
    if html:
        texts[html] = explanation.to_html(title=title, source=studied.source)
    with write_outputs(texts):
        if as_json:
            print_json({**explanation.to_dict(), "card": dict(explanation.card(title).sections)})
        else:
            print_explanation(explanation, console())
