"""Tutorials are run when the manual is built: under every block stands what it printed and drew."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from manual.code_blocks import ROOT, PageRun, list_blocks, working_folder

FOLDER = "tutorials"
NEEDS = re.compile(r"^<!-- needs: (\S+) -->$", re.MULTILINE)
"""A public file that is not in the repository: its place beside the checkout. Blocks find it in their folder."""
NOT_RUN = """!!! note "Not run in this copy of the manual"

    It was built without the file `{}`, so nothing stands under the blocks."""


@dataclass
class RunTutorial:
    """A tutorial with its results."""

    text: str = ""
    figures: dict[str, bytes] = field(default_factory=dict)
    """PNG files by name, which lie beside the page."""


def run_tutorial(path: Path) -> RunTutorial:
    """Run a tutorial's blocks in an empty folder, in order."""
    import matplotlib.pyplot as plt
    import pandas as pd

    plt.switch_backend("Agg")
    plt.close("all")
    pd.set_option("display.width", 100, "display.max_columns", 12)
    source, done, at = path.read_text(encoding="utf-8"), RunTutorial(), 0
    run = PageRun(path.name)
    needed = [ROOT / name for name in NEEDS.findall(source)]
    if missing := [file for file in needed if not file.is_file()]:
        return RunTutorial(NEEDS.sub(NOT_RUN.format(missing[0].name), source))
    with tempfile.TemporaryDirectory() as folder, working_folder(Path(folder)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in needed:
            shutil.copy(file, folder)
        for block in list_blocks(source):
            done.text += source[at : block.end]
            at = block.end
            if block.is_run and block.language != "text":
                done.text += _show_output(run.run(block)) + _show_figures(path.stem, done.figures)
    done.text += source[at:]
    return done


def _show_output(printed: str) -> str:
    if not printed.strip():
        return ""
    return f'\n\n<div class="output" markdown>\n\n```text\n{printed.rstrip()}\n```\n\n</div>'


def _show_figures(name: str, figures: dict[str, bytes]) -> str:
    import matplotlib.pyplot as plt

    shown = ""
    for number in plt.get_fignums():
        figure, image = plt.figure(number), io.BytesIO()
        figure.savefig(image, format="png", dpi=110, metadata={"Software": None})
        title = figure.get_suptitle() or figure.axes[0].get_title() or figure.axes[0].get_ylabel()
        file = f"{name}-{len(figures) + 1}.png"
        figures[file] = image.getvalue()
        shown += f"\n\n![{title}]({file})"
    plt.close("all")
    return shown


def run_tutorials() -> dict[str, RunTutorial]:
    """Every tutorial by its page in the manual."""
    paths = sorted((ROOT / "docs" / FOLDER).glob("*.md"))
    return {f"{FOLDER}/{path.name}": run_tutorial(path) for path in paths}
