"""Prepare a checkout for the release of a tag: it must be the version, dated in the changelog, and links become absolute.

    python release/prepare.py v0.2.0 https://forge.example.org/surefoot/surefoot

An index shows README without the files around it, so its links lead to the files of this tag on the forge; `[project.urls]`
names the same places. Both are known only where a release is made, so they are written there and not committed.
"""

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
"""A link of Markdown to a file of the repository: picture or not, words, path, place in it."""


def prepare(root, tag, home):
    """Check the tag and write the links of a checkout."""
    check_tag(root, tag)
    home = home.rstrip("/")
    readme, project = root / "README.md", root / "pyproject.toml"
    readme.write_text(make_absolute(readme.read_text(encoding="utf-8"), home, tag), encoding="utf-8")
    project.write_text(add_urls(project.read_text(encoding="utf-8"), home, tag), encoding="utf-8")


def check_tag(root, tag):
    """Refuse a tag that is not the version, or that the changelog does not date."""
    version = re.search(r'^__version__ = "(.+)"', (root / "src/surefoot/version.py").read_text(), re.MULTILINE)[1]
    if tag != f"v{version}":
        raise SystemExit(
            f"the tag is {tag} and src/surefoot/version.py says {version}; tag v{version} or change the version"
        )
    if not re.search(
        rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d{{2}}-\d{{2}}$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        raise SystemExit(f"CHANGELOG.md has no line '## {version} - YYYY-MM-DD'; date what is released")


def make_absolute(text, home, tag):
    """Links to files become links to these files of the tag; pictures to the pictures themselves.

    >>> make_absolute("[a](docs/a.md#b), ![c](c.png), [d](https://d.org), [e](#e)", "https://forge.org/x", "v1")
    '[a](https://forge.org/x/blob/v1/docs/a.md#b), ![c](https://forge.org/x/raw/v1/c.png), [d](https://d.org), [e](#e)'
    """

    def replace(found):
        picture, words, path, place = found.groups(default="")
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/{tag}/{path}{place})"

    return LINK.sub(replace, text)


def add_urls(text, home, tag):
    """The places of the forge, beside the method's own."""
    urls = {
        "Homepage": home,
        "Documentation": f"{home}/tree/{tag}/docs",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Source": f"{home}/tree/{tag}",
        "Issues": f"{home}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    added = text.replace("[project.urls]\n", f"[project.urls]\n{lines}")
    if tomllib.loads(added)["project"]["urls"].keys() < urls.keys():
        raise SystemExit("pyproject.toml has no [project.urls] to add to")
    return added


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tag", help="v0.2.0")
    parser.add_argument("home", help="where the repository lives")
    options = parser.parse_args()
    prepare(ROOT, options.tag, options.home)
