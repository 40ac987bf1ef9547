"""Every public name says what it takes, what it gives and, where it can, how it is used: the reference is made from it."""

import ast
import inspect
import itertools
import re
import textwrap

import pytest

import surefoot as sf


def is_plain_error(part):
    """An error or warning with neither parameters nor attributes of its own has no more to say than its sentence."""
    return issubclass(part, Exception) and not {"__init__", "__annotations__"} & vars(part).keys()


def list_public():
    modules = {id(part): part for part in (getattr(sf, name) for name in sf.__all__) if inspect.ismodule(part)}
    for module in (sf, *modules.values()):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


PUBLIC = dict(list_public())
CLASSES = {name: part for name, part in PUBLIC.items() if inspect.isclass(part) and not is_plain_error(part)}
FUNCTIONS = {name: part for name, part in PUBLIC.items() if inspect.isfunction(part)}


def read_section(part, title):
    """Entries of a numpydoc section: names by the line that holds them, which is not indented."""
    text = inspect.cleandoc(part.__doc__ or "")
    found = re.search(rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=\n\n[A-Z][a-z ]+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    lines = found[1].split("\n") if found else []
    heads = [line.split(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def list_fields(part):
    """The fields that a class has itself, and those with a docstring under them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0].body
    own = [
        (node.target.id, isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
        for node, after in itertools.pairwise([*body, None])
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_") and "ClassVar" not in ast.unparse(node)
    ]
    return {name for name, _ in own}, {name for name, explained in own if explained}


def test_the_public_names_are_there():
    assert len(CLASSES) > 50 and len(FUNCTIONS) > 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_name_parameters_result_and_an_example(name):
    part = FUNCTIONS[name]
    code = part.__code__  # Its signature may also show the keywords that it hands on, which are described there.
    handed_on = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    takes = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + handed_on])
    missing = takes - read_section(part, "Parameters")
    assert missing <= {"options"}, f"{name}: Parameters does not name {missing}"
    assert read_section(part, "Returns"), f"{name}: Returns is missing"
    assert read_section(part, "Examples") and ">>>" in part.__doc__, f"{name}: Examples is missing"


@pytest.mark.parametrize("name", CLASSES)
def test_public_classes_name_their_parameters_or_attributes(name):
    part = CLASSES[name]
    fields, explained = list_fields(part)
    named = explained | read_section(part, "Parameters") | read_section(part, "Attributes")
    assert named or not fields, f"{name}: neither Parameters nor Attributes"
    assert fields <= named, f"{name}: {fields - named} are not named"


FORMULA = re.compile(r"[Σ√ᵀβθεζτσΨ₀₁]|argmax")


def test_first_sentences_are_in_words():
    """Formulas come after them."""
    first = {name: inspect.getdoc(part).split("\n\n")[0] for name, part in {**CLASSES, **FUNCTIONS}.items()}
    assert [name for name, sentence in first.items() if FORMULA.search(sentence)] == []


def test_every_part_of_a_registry_has_a_sentence():
    for registry in (
        sf.critics.CRITICS,
        sf.pooling.POOLINGS,
        sf.horizons.HORIZONS,
        sf.filters.FILTERS,
        sf.rules.RULE_LEARNERS,
    ):
        for name in registry:
            assert registry.find(name).__doc__, name
