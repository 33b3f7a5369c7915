"""Messages on installing optional packages name this project, never another project of the same name."""

import re
import shlex
import tomllib
from pathlib import Path

from tinytrain.base.extras import PACKAGES, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = (".ci", "datasets", "firmware_sim", "meta", "tests", "tinytrain")
KINDS = ("", ".cff", ".html", ".md", ".py", ".sh", ".toml", ".yaml")
FILES = [*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
TEXTS = {path: path.read_text(errors="replace") for path in FILES if path.is_file() and path.suffix in KINDS}
FOREIGN = re.compile(r"pip install(?: -\S+)* ['\"]?tinytrain(?!-adapt)\b")


def test_the_distribution_has_a_name_of_its_own_and_the_command_keeps_the_short_one():
    assert PROJECT["name"] == "tinytrain-adapt"
    assert list(PROJECT["scripts"]) == ["tinytrain"]


def test_no_message_recommends_the_other_project_of_this_name():
    here = Path(__file__)
    assert len(FOREIGN.findall(TEXTS[here])) == 2, "pip install 'tinytrain[host]', pip install -U tinytrain"
    assert [str(path) for path, text in TEXTS.items() if path != here and FOREIGN.search(text)] == []


def test_every_message_names_an_extra_by_the_packages_that_it_stands_for():
    """The project itself is on no index, so that only the packages can be installed from anywhere."""
    named = {extra for text in TEXTS.values() for extra in re.findall(r"\binstall\(['\"](\w+)['\"]\)", text)}
    assert {"host", "onnx"} <= named <= PACKAGES.keys()
    for extra, packages in PACKAGES.items():
        assert list(packages) == PROJECT["optional-dependencies"][extra]
        assert shlex.split(install(extra)) == ["pip", "install", *packages]


def test_no_message_wants_the_project_from_an_index():
    wanted = re.compile(rf"pip install [^\n`]*{PROJECT['name']}")
    assert [str(path) for path, text in TEXTS.items() if path != Path(__file__) and wanted.search(text)] == []
