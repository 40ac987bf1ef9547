"""Run a Python file as after `pip install .`: only what the core dependencies bring can be imported.

python tests/core_only.py FILE [ARGUMENTS]
"""

import importlib.util
import re
import runpy
import sys
from importlib import metadata


def list_distributions(name):
    """A distribution and what it requires without extras, and so on."""
    known, waiting = set(), [name]
    while waiting:
        distribution = canonical(waiting.pop())
        if distribution in known:
            continue
        known.add(distribution)
        try:
            needs = metadata.requires(distribution) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        waiting += [re.match(r"[\w.-]+", need)[0] for need in needs if "extra ==" not in need]
    return known


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class OnlyCore:
    """Refuses every module that comes with a distribution outside the core."""

    def __init__(self):
        core = list_distributions("surefoot")
        distributions = metadata.packages_distributions()
        self.refused = {
            module for module, names in distributions.items() if not any(canonical(name) in core for name in names)
        }

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.refused:
            raise ModuleNotFoundError(f"No module named '{name}' after pip install .", name=name)


def find_spec(name, package=None, search=importlib.util.find_spec):
    """`importlib.util.find_spec`, which finds nothing outside the core."""
    try:
        return search(name, package)
    except ModuleNotFoundError:
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, OnlyCore())
    importlib.util.find_spec = find_spec
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
