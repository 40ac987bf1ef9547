"""A command as its user types it, in this process: what `surefoot` prints, and its exit code."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest

from surefoot.cli import main


def type_command(*arguments, one_pipe=False):
    """Run it; `one_pipe` has both streams in `stdout`."""
    stdout = StringIO()
    stderr = stdout if one_pipe else StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
        patch.setattr(sys, "argv", ["surefoot", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return SimpleNamespace(returncode=ended.value.code, stdout=stdout.getvalue(), stderr=stderr.getvalue())
