"""`surefoot audit`: what a fit left out, and whether that was safe."""

from __future__ import annotations

from pathlib import Path

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, LoadedStudy, Logs, StudyFile, console, print_json, write_outputs


@app.command()
def audit(logs: Logs, study: StudyFile = Path("study.toml"), html: HtmlFile = None, as_json: AsJson = False) -> None:
    """Say what the fit left out, and whether that was safe: fine, look or unsafe, with the reason and the remedy."""
    from surefoot.audit.summary import print_audit

    studied = LoadedStudy.of(logs, study)
    result = studied.audit_fit(studied.fit_method())
    title = f"Audit of {logs.name}"
    with write_outputs({html: result.to_html(title=title, source=studied.source)} if html else {}):
        if as_json:
            print_json(result.to_dict())
        else:
            print_audit(result, console())
