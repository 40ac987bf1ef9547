"""Check that a change adds to the changelog: what users can see must be said.

    python release/check_changelog.py            # beside origin/main, or main
    python release/check_changelog.py v0.1.0     # beside anything

Asked of changes to the package, the clients and what is deployed. A change that users cannot see says so on a line of one of
its commit messages: `Changelog: none`.
"""

import subprocess
import sys
from pathlib import Path

SEEN_BY_USERS = ("src/", "clients/typescript/src/", "deploy/")
BASES = ("origin/main", "main")
OPT_OUT = "changelog: none"


def check_changelog(root, base=None):
    """What is wrong, or None; what there is to say otherwise is printed."""
    base = find_base(root) if base is None else git(root, "merge-base", base, "HEAD")
    if base is None:
        print("changelog: there is nothing to compare with")
        return None
    changed = [name for name in git(root, "diff", "--name-only", base).splitlines() if name.startswith(SEEN_BY_USERS)]
    messages = git(root, "log", "--format=%B", f"{base}..HEAD").lower().splitlines()
    added = git(root, "diff", "--unified=0", base, "--", "CHANGELOG.md").splitlines()
    if not changed or OPT_OUT in messages or any(line.startswith("+") and line[1:2] not in ("", "+") for line in added):
        return None
    return (
        f"CHANGELOG.md says nothing of this change to {changed[0]}{' and others' if changed[1:] else ''}; add a line under"
        f" Unreleased, or, where users cannot see it, the line 'Changelog: none' to a commit message"
    )


def find_base(root):
    """The commit that this change began from; None where there is no other branch."""
    for name in BASES:
        found = git(root, "merge-base", name, "HEAD", refuse=False)
        if found is not None and (found != git(root, "rev-parse", "HEAD") or git(root, "status", "--porcelain")):
            return found
    return None


def git(root, *words, refuse=True):
    """What a git command prints; None where it fails and that is no error."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)  # noqa: S603, S607 - git
    if done.returncode == 0:
        return done.stdout.strip()
    if refuse:
        raise SystemExit(f"git {words[0]}: {done.stderr.strip()}")
    return None


if __name__ == "__main__":
    sys.exit(check_changelog(Path(__file__).resolve().parents[1], *sys.argv[1:2]))
