import subprocess
import sys
from importlib.metadata import version

import surefoot as sf


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout  # noqa: S603


def test_version_is_that_of_the_distribution():
    assert sf.__version__ == version("surefoot")


def test_import_leaves_heavy_modules_alone():
    """What makes an import slow is loaded where it is used; the time itself is measured in benchmarks/."""
    heavy = ["pyarrow", "pandas", "polars", "scipy", "matplotlib", "torch"]
    assert run(f"import sys, surefoot; print([name for name in {heavy} if name in sys.modules])").strip() == "[]"
