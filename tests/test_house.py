"""What CONTRIBUTING asks of the code and a machine can see: short functions, plain names, parts behind registries."""

import ast
import functools
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "surefoot"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}

IRREGULAR = "given|taken|hidden|known|shown|drawn|chosen|written|kept|held|spoken|found|laid"
PARTICIPLE = re.compile(rf"_?([a-z]*[^e]ed|[a-z]+ing|{IRREGULAR})(_(by|of|from|to|for|with|before|out)(_\w+)?)?")
NAMED_BY_THE_RESULT = {
    "fixed",  # policies.fixed([0.3, 0.7]) makes a fixed policy, as policies.coin makes a coin
    "removed",  # a table of the audit, beside people()
    "validated",  # the constructor of Trajectories that validates
    "missing",  # an adjective: a table of the screen
    "scaling",  # the noun
    "_setting",  # the noun
    "_started_by",  # an update's column `started_by`
}
OF_A_LIBRARY = {"_asdict", "_replace", "_fields", "_exit", "_processes"}
COMPARISONS = r"\b(critic|pooling|horizon|filter|rule)(\.name)? ==|isinstance\(rule\b"


@functools.cache
def parse_files():
    """Not when this file is read: every worker reads it, and most run none of its tests."""
    return {name: ast.parse(text) for name, text in FILES.items()}


def list_functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def test_nobody_compares_the_name_of_a_part():
    found = [
        f"{name}: {line.strip()}"
        for name, text in FILES.items()
        for line in text.splitlines()
        if re.search(COMPARISONS, line)
    ]
    assert found == []


VAGUE = re.compile("asked|each|found|here|kept|more|one|own|place|rest|some|there|told|what|where|who|whole")


def list_assigned_names(tree):
    """Variables, loop variables and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_no_variable_has_a_vague_name():
    vague = [
        f"{name}:{line} {variable}"
        for name, tree in parse_files().items()
        for line, variable in list_assigned_names(tree)
        if VAGUE.fullmatch(variable)
    ]
    assert vague == []


def test_one_assignment_per_statement():
    """Pairs that belong together (`low, high = …`) are allowed, so a few per cent remain."""
    trees = parse_files().values()
    assignments = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    packed = [node for node in assignments if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)]
    assert len(packed) <= 0.02 * len(assignments)


def is_named_by_its_value(function):
    """A property is what it gives; a validator states what it validates."""
    return any(re.search("property|validator|setter", ast.unparse(decorator)) for decorator in function.decorator_list)


def test_no_function_is_a_bare_participle():
    found = [
        f"{name}:{function.lineno} {function.name}"
        for name, tree in parse_files().items()
        for function in list_functions(tree)
        if PARTICIPLE.fullmatch(function.name) and function.name not in NAMED_BY_THE_RESULT
        if not is_named_by_its_value(function)
    ]
    assert found == []


def list_own_names(tree):
    """What a module defines: functions, classes, fields, variables, attributes of self."""
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            yield node.attr


def is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def list_private_names(tree):
    """Private names that a module reads from something that is not itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_self(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surefoot"):
            yield from ((node.lineno, alias.name) for alias in node.names)


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"))
def test_nobody_reads_private_names_of_another_module(folder):
    found = [
        f"{name}:{line} {attribute}"
        for name, tree in parse_files().items()
        if f"/surefoot/{folder}/" in name
        for own in [set(list_own_names(tree))]
        for line, attribute in list_private_names(tree)
        if re.match(r"_[a-zA-Z]", attribute) and attribute not in OF_A_LIBRARY | own
    ]
    assert found == []


def test_the_recipes_name_files_that_there_are():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)(?:::(\w+))?`", text)
    assert len(paths) > 30
    for path, test in paths:
        if "NAME" in path:
            path = path[: path.index("NAME")].rpartition("/")[0]  # noqa: PLW2901
        found = [folder / path for folder in (ROOT, SOURCE, ROOT / "tests") if (folder / path).exists()]
        assert found, f"CONTRIBUTING names {path}"
        assert not test or f"def {test}(" in found[0].read_text(encoding="utf-8")


CITED_FILE = re.compile(
    r"(?<![\w./:-])(?:[\w.-]+/)*[\w-]+\.(?:py|toml|html|json|md|svg|ts|yml|conf)(?!\w)|(?:[\w-]+/)+(?![\w/])"
)
CITED_MODULE = re.compile(r"`(surefoot(?:\.\w+)+)")
OF_OTHERS = {"config.py"}  # docs/coming-from/justin.md: a file of JustIn


def is_cited_file(cited, folders):
    """Whether it names a file or folder of the repository, and not one of the reader's."""
    return (cited.endswith(".py") or cited.partition("/")[0] in folders) and cited not in OF_OTHERS


def test_the_manual_cites_files_that_there_are():
    folders = [path for path in (ROOT, SOURCE, ROOT / "tests", ROOT / "docs") if path.is_dir()]
    names = {path.name for folder in folders for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"}
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    gone = [
        f"{page.relative_to(ROOT)}: {cited}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for cited in CITED_FILE.findall(page.read_text(encoding="utf-8"))
        if is_cited_file(cited, names)
        if not any((folder / cited).exists() for folder in (*folders, page.parent))
        if not any(module.endswith(f"/{cited}") for module in modules)
    ]
    assert gone == []


def test_the_manual_cites_modules_that_there_are():
    gone = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for cited in set(CITED_MODULE.findall(page.read_text(encoding="utf-8"))) - {"surefoot.db"}:
            try:
                pkgutil.resolve_name(cited)
            except (ImportError, AttributeError):
                gone.append(f"{page.relative_to(ROOT)}: {cited}")
    assert gone == []
