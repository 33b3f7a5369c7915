"""Every error code of the source has its paragraph in docs/errors.md, and every paragraph there an error."""

import ast
import functools
import re

from sourcetree import MODULES, ROOT

from tinytrain.backbones import pickled
from tinytrain.base import errors
from tinytrain.base.file_kinds import ROLES
from tinytrain.episode import decode

PAGE = ROOT / "docs" / "errors.md"
MOST = 45  # codes; what a program would not tell apart is a message of one of them
CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
RAISED = {name for name, value in vars(errors).items() if isinstance(value, type)} | {"Reason"}
# Functions that raise an error with a code that they are given: which argument it is.
GIVEN = {"parsed": 3, "read_yaml": 1}
# Where a code is no constant, and why it is known all the same.
KNOWN = {
    "base/file_kinds.py": "the codes of ROLES",
    "base/schema.py": "parsed",
    "base/yaml_file.py": "read_yaml",
    "backbones/pickled.py": "the codes of NOT_READ",
    "base/confined.py": "the code of the error that was raised in the other process",
    "cli/commands/adapt.py": "the code of a Reason",
    "cli/commands/common.py": "the code of the error that it words again",
    "cli/commands/episodes.py": "the code of the error that it words again",
    "episode/decode.py": "the codes of NOT_READ, and that of the error that it words again",
    "kernels/__init__.py": "a warning of the cache, jit-cache",
    "network/validation.py": "file-damaged or unsupported",
}


def calls_and_raised() -> tuple[list, set[str]]:
    """(file, arguments, name of what is called) of the calls of the source; the names of all errors."""
    found, raised = [], set(RAISED)
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                f = node.func
                called = f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")
                found.append((path.relative_to(ROOT).as_posix(), node.args, called))
            elif isinstance(node, ast.ClassDef) and RAISED & {getattr(b, "id", "") for b in node.bases}:
                raised.add(node.name)  # an error of one module alone: a kind of the others
    return found, raised


def constants(node) -> list[str]:
    """Texts that an expression can be."""
    if isinstance(node, ast.IfExp):
        return constants(node.body) + constants(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@functools.cache
def codes_in_the_source() -> tuple[set[str], set[str]]:
    """All codes, and the files in which one is no constant."""
    codes, open_files = {code for code, _ in ROLES.values()}, set()
    codes |= {code for module in (decode, pickled) for code, _ in module.NOT_READ.values()}
    calls, raised = calls_and_raised()
    for file, arguments, called in calls:
        place = GIVEN.get(called, 0 if called in raised else None)
        if place is None or len(arguments) <= place:
            continue
        texts = constants(arguments[place])
        codes.update(texts)
        if not texts and called in raised:
            open_files.add(file.removeprefix("tinytrain/"))
    return codes, open_files


def codes_of_the_page() -> list[str]:
    return re.findall(r"^#### (\S+)$", PAGE.read_text(), re.M)


def test_the_page_has_every_code_and_no_other():
    codes, _ = codes_in_the_source()
    page = codes_of_the_page()
    assert len(page) == len(set(page)), "a code has two paragraphs"
    assert not codes - set(page), f"without a paragraph: {sorted(codes - set(page))}"
    assert not set(page) - codes, f"no error has these codes: {sorted(set(page) - codes)}"


def test_codes_are_words_with_dashes_and_few_enough_to_branch_on():
    codes, _ = codes_in_the_source()
    assert len(codes) <= MOST, f"{len(codes)} codes: take one of {sorted(codes)} instead"
    assert not [code for code in codes if not CODE.fullmatch(code)]


def test_docstrings_name_codes_that_there_are():
    codes, named = set(codes_of_the_page()), {}
    for path in MODULES.values():
        for code in re.findall(r"(?:Error,?|code|codes:) ``([a-z]+(?:-[a-z0-9]+)+)``", path.read_text()):
            named.setdefault(code, path.relative_to(ROOT).as_posix())
    assert len(named) > 20, "they are not found any more"
    assert not {code: file for code, file in named.items() if code not in codes}


def test_where_a_code_is_no_constant_it_is_known():
    _, open_files = codes_in_the_source()
    assert open_files <= set(KNOWN), f"add the codes made in {sorted(open_files - set(KNOWN))} to this test"


def test_every_code_has_a_paragraph_that_says_something():
    parts = re.split(r"^#### (\S+)$", PAGE.read_text(), flags=re.M)[1:]
    for code, text in zip(parts[::2], parts[1::2], strict=True):
        paragraph = text.strip().split("\n\n")[0]
        assert len(paragraph.split()) >= 7 and paragraph.endswith("."), f"{code}: {paragraph}"
