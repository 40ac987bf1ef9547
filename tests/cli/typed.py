"""A command as its user types it, in this process: what `surefoot` prints, and its exit code."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from surefoot.cli import app, main


def type_command(*arguments, one_pipe=False):
    """Run it; `one_pipe` has both streams in `stdout`."""
    stdout = StringIO()
    stderr = stdout if one_pipe else StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
        patch.setattr(sys, "argv", ["surefoot", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return SimpleNamespace(returncode=ended.value.code, stdout=stdout.getvalue(), stderr=stderr.getvalue())


def run(*arguments):
    """The standard output of a command; an exception of the command is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def run_words(*words, code=0):
    """The standard output of a command that ends with this exit code."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout
