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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<code>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
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
        )
        for found in FENCE.finditer(text)
    ]


class PageRun:
    """Runs the blocks of one page, in order, in one namespace and in the folder that is the working directory."""

    def __init__(self, name: str) -> None:
        self.name = name
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
                if value is not None:
                    print(value if isinstance(value, str) else repr(value))
        return printed.getvalue()

    def _compare_session(self, block: CodeBlock, where: str) -> None:
        session = doctest.DocTestParser().get_doctest(block.code, self.variables, where, self.name, block.line)
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
        tomllib.loads(block.code)
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
    from typer.testing import CliRunner

    from surefoot.cli import app

    if words[0] != "surefoot":
        raise AssertionError(f"{shlex.join(words)}: only surefoot is run; say '# not run here: ' and why, or use Python")
    result = CliRunner().invoke(app, words[1:], env={"COLUMNS": "100", "TERM": "dumb"})
    # The audit's verdict is an exit code too.
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{shlex.join(words)}: {result.exception}") from result.exception
    if result.exit_code not in (0, 1):
        raise AssertionError(f"{shlex.join(words)} ended with {result.exit_code}: {result.output}")
    return result.stdout


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
