"""Code blocks of a page in Markdown, and how each is run: what the tests do with every page and the build with tutorials."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)(?: title=\"(?P<file>[^\"]+)\")?\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
NOT_RUN = re.compile(r"^# not run here: \S", re.MULTILINE)
"""How a block says that it needs what a test does not have, and what that is."""


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its language, its code, and the line on which the code begins."""

    language: str
    code: str
    line: int
    end: int
    """Where the block ends in the page's text."""
    file: str | None = None
    """The file that the block shows, and that running it writes."""

    @property
    def is_run(self) -> bool:
        """Whether tests and builds run it."""
        return NOT_RUN.search(self.code) is None


def list_blocks(text: str) -> list[CodeBlock]:
    """Every fenced block of a page.

    >>> [(block.language, block.code, block.line) for block in list_blocks("Say\\n\\n```python\\nx = 1\\n```\\n")]
    [('python', 'x = 1\\n', 4)]
    """
    return [
        CodeBlock(
            found["language"],
            "".join(line.removeprefix(found["indent"]) for line in found["code"].splitlines(keepends=True)),
            text.count("\n", 0, found.start("code")) + 1,
            found.end(),
            found["file"],
        )
        for found in FENCE.finditer(text)
    ]


class PageRun:
    """Runs the blocks of one page, in order, in one namespace and in the folder that is the working directory."""

    def __init__(self, name: str, study: dict[str, Any] | None = None) -> None:
        self.name = name
        self.study = study or {}
        """What a block of TOML that holds only some sections of a study is added to."""
        self.variables: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: CodeBlock) -> str:
        """Run a block; what it printed. A block that does not do what it says raises."""
        return getattr(self, f"_run_{block.language}")(block)

    def _run_python(self, block: CodeBlock) -> str:
        where = f"{self.name}, line {block.line}"
        if block.code.startswith(">>>"):
            self._compare_session(block, where)
            return ""
        parsed = ast.parse("\n" * (block.line - 1) + block.code, where)
        last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(parsed, where, "exec"), self.variables)  # noqa: S102
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), where, "eval"), self.variables)  # noqa: S307
                if value is not None and not block.code.rstrip().endswith(";"):
                    print(value if isinstance(value, str) else repr(value))
        return printed.getvalue()

    def _compare_session(self, block: CodeBlock, where: str) -> None:
        # An empty line before anything but the next prompt belongs to what was printed.
        code = re.sub(r"\n\n(?!>>>|\s*\Z)", "\n<BLANKLINE>\n", block.code)
        session = doctest.DocTestParser().get_doctest(code, self.variables, where, self.name, block.line)
        runner, said = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE), io.StringIO()
        if runner.run(session, out=said.write, clear_globs=False).failed:
            raise AssertionError(said.getvalue())
        self.variables.update(session.globs)

    def _run_sh(self, block: CodeBlock) -> str:
        return "".join(_run_command(command) for command in list_commands(block.code))

    def _run_console(self, block: CodeBlock) -> str:
        typed = [line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ ")]
        return "".join(_run_command(command) for command in list_commands("\n".join(typed)))

    def _run_toml(self, block: CodeBlock) -> str:
        from surefoot import Study

        section = tomllib.loads(block.code)
        if block.file is not None:
            Path(block.file).write_text(block.code, encoding="utf-8")
        if block.file in (None, "study.toml"):
            Study.model_validate(section if "columns" in section else _merge(self.study, section))
        return ""

    def _run_json(self, block: CodeBlock) -> str:
        json.loads(block.code)
        return ""

    def _run_yaml(self, block: CodeBlock) -> str:
        import yaml

        yaml.safe_load(block.code)
        return ""

    def _run_text(self, block: CodeBlock) -> str:
        return ""


def _merge(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _merge(whole[key], value) for key, value in part.items() if isinstance(whole.get(key), dict)}
    return whole | part | inner


def list_commands(code: str) -> Iterator[list[str]]:
    """The commands of a shell block as words: comments left out, lines joined that end in a backslash.

    >>> list(list_commands("surefoot fit a.csv \\\\\\n  --json   # all of it\\n"))
    [['surefoot', 'fit', 'a.csv', '--json']]
    """
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def _run_command(words: list[str]) -> str:
    if words[0] not in PROGRAMS:
        raise AssertionError(f"{shlex.join(words)}: is not run; say '# not run here: ' and why, or write {list(PROGRAMS)}")
    return PROGRAMS[words[0]](words[1:])


def _run_surefoot(words: list[str]) -> str:
    from typer.testing import CliRunner

    from surefoot.cli import app

    result = CliRunner().invoke(app, words, env={"COLUMNS": "100", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"surefoot {shlex.join(words)}: {result.exception!r}") from result.exception
    if result.exit_code:
        raise AssertionError(f"surefoot {shlex.join(words)} ended with {result.exit_code}: {result.output}")
    return result.stdout


def _check_make(words: list[str]) -> str:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    if words[0] not in targets:
        raise AssertionError(f"make {words[0]}: there is no such target")
    return ""


def _check_pip(words: list[str]) -> str:
    found = re.fullmatch(r"(?:\.|surefoot)(?:\[([\w,]+)\])?", words[-1])
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if words[0] != "install" or found is None or not set((found[1] or "dev").split(",")) <= known.keys():
        raise AssertionError(f"pip {shlex.join(words)}: there is no such package or extra")
    return ""


def _check_python(words: list[str]) -> str:
    path = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    if not (ROOT / path).is_file():
        raise AssertionError(f"python {shlex.join(words)}: there is no {path}")
    return ""


PROGRAMS: dict[str, Callable[[list[str]], str]] = {
    "surefoot": _run_surefoot,
    "make": _check_make,
    "pip": _check_pip,
    "python": _check_python,
}
"""What a shell block may call: `surefoot` runs in this process; of the others it is checked that what they name exists."""


@contextlib.contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """Work in a folder, and be back afterwards with the environment as it was."""
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
