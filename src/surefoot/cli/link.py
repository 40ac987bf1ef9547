"""From raw files to decision points: `surefoot link` and `surefoot link init`."""

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from surefoot.cli import application
from surefoot.errors import InputError

PLAN = Path("link.toml")
RUN = "run"
Decisions = Annotated[Path, typer.Argument(help="The log of decision points: .csv, .tsv, .parquet or .xlsx.")]


class RunByDefault(typer.core.TyperGroup):
    """`surefoot link decisions.csv …` is `surefoot link run decisions.csv …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_command = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if is_command or not args else [RUN, *args])


linking = typer.Typer(
    cls=RunByDefault,
    help="Compute states and outcomes of decision points from sensor and survey files.",
    no_args_is_help=True,
)
application.app.add_typer(linking, name="link")
LINK_EXAMPLES = """**Examples**

    surefoot link init decisions.csv --stream steps.csv --stream survey.csv

    surefoot link decisions.csv --plan link.toml --out logs.parquet --study study.toml --html link.html

    surefoot link decisions.csv --stream steps=other/steps.parquet --out logs.csv
"""


@linking.command(RUN, epilog=LINK_EXAMPLES)
def link(
    decisions: Decisions,
    stream: Annotated[
        list[str] | None,
        typer.Option(help="FILE, or NAME=FILE with a stream's name in the plan; instead of the file that the plan names."),
    ] = None,
    plan: Annotated[
        Path, typer.Option(help="What the columns mean, and the windows; `surefoot link init` writes one.")
    ] = PLAN,
    out: Annotated[
        Path, typer.Option(help="The logs to write: .parquet or .csv.", callback=application.check_writable)
    ] = Path("logs.parquet"),
    study: Annotated[
        Path | None,
        typer.Option(help="Also write a first study file for the logs.", callback=application.check_writable),
    ] = None,
    html: application.HtmlFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Compute states and outcomes of every decision point from windows over raw rows (the default).

    Windows before a decision give states, windows after it outcomes, on each participant's own clock. A minute without data
    is missing, not zero. Nothing from after a decision enters its states.
    """
    from surefoot.linking import LinkPlan
    from surefoot.linking import link as link_files
    from surefoot.linking.linked import check_log_name

    if study is not None and study.is_file():
        raise InputError(f"{study}: is already there; choose another name with --study")
    check_log_name(out)
    streams = _name_streams(stream or [], LinkPlan.load(plan))
    with application.show_progress("linking", "linked", pause=5.0) as progress:
        linked = link_files(decisions, streams, plan=plan, progress=progress)
    source = f"{decisions.name}, linked as {plan.name} says"
    page = linked.to_html(title=f"{decisions.name}: from raw files to decision points", source=source) if html else ""
    draft = linked.draft_study(out.name) if study is not None else None
    for message in () if draft is None else draft.warnings:
        application.print_warning(message)
    linked.write(out)
    with application.write_outputs({html: page, study: "" if draft is None else draft.text}):
        if as_json:
            application.print_json({"out": str(out), **linked.to_dict()})
        else:
            linked.print_summary(application.make_console())
            following = f"effects {out}" if study is not None else f"link {decisions} --study study.toml"
            typer.echo(f"Written: {out}\nNext: surefoot {following}")


def _name_streams(texts: list[str], plan: Any) -> dict[str, Path]:
    """The files of the streams that options name: by NAME=, or by the file name in the plan, or without its suffix."""
    streams = {}
    for text in texts:
        name, sign, file = text.rpartition("=")
        path = Path(file)
        if not sign:
            by_file = [key for key, section in plan.streams.items() if section.file and Path(section.file).name == path.name]
            name = by_file[0] if len(by_file) == 1 else path.name.split(".")[0]
        if name not in plan.streams:
            remedy = f"write --stream NAME={file} with one of {list(plan.streams)}"
            raise InputError(f"--stream {text}: no stream of the plan has this file or the name '{name}'; {remedy}")
        streams[name] = path
    return streams


@linking.command()
def init(
    decisions: Decisions,
    stream: Annotated[list[Path], typer.Option(help="A file of sensor or survey rows, or the export of a platform.")],
    out: Annotated[Path, typer.Option(help="The plan to write.")] = PLAN,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Look at the files and write a first plan with comments."""
    from surefoot.linking import link as _  # noqa: F401 - says how to install what is missing
    from surefoot.linking.draft import draft_plan

    application.refuse_existing(out, force=force)
    draft = draft_plan(decisions, stream, plan=str(out))
    words = "" if out == PLAN else f" --plan {out}"
    files = "--out logs.parquet --study study.toml --html link.html"
    application.write_draft(draft, out, f"link {decisions}{words} {files}")
