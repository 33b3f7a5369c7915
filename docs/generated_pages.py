"""Pages that are made when the site is built, so that none of them can become outdated.

The commands are those of the parsers, the Python reference lists what the package offers, and the documents
beside `docs/` become pages of the site.
"""

import contextlib
import importlib
import io
import os
import re
from argparse import _SubParsersAction
from pathlib import Path

from mkdocs.structure.files import File

import tinytrain
from tinytrain.base.console import Parser
from tinytrain.cli.main import COMMANDS, run

ROOT = Path(__file__).parents[1]
DOCUMENTS = {
    "tests/README.md": "tests.md",
    "RESULTS.md": "results.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
DOCUMENTS |= {
    f"results/{path.parent.name}/README.md": f"results-{path.parent.name}.md"
    for path in sorted(ROOT.glob("results/*/README.md"))
}
# Names that are documented beside those of `tinytrain`.
MORE = (
    "tinytrain.datasets.folder.folder_dataset",
    "tinytrain.datasets.folder.folder_episode",
    "tinytrain.datasets.named.open_dataset",
    "tinytrain.datasets.samplers.sample_episode",
    "tinytrain.policies.common.Policy",
    "tinytrain.heads.head.HeadMethod",
    "tinytrain.heads.head.Head",
    "tinytrain.pipeline.policy_conformance.check_policy",
    "tinytrain.pipeline.head_conformance.check_head",
    "tinytrain.report.report.Report",
    "tinytrain.guard.guard.Verdict",
    "tinytrain.base.errors",
)
COLUMNS = "80"


def on_files(files, config):
    """Add the generated pages."""
    pages = {"commands.md": commands(), "python-reference.md": python_reference()}
    pages |= {page: (ROOT / name).read_text() for name, page in DOCUMENTS.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """Point links between the documents of the project at pages of the site."""
    for name, target in {**DOCUMENTS, "README.md": "index.md", "docs/": ""}.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}", f"]({target}", markdown)
    return markdown


def commands() -> str:
    """A page with the help of every command."""
    lines = ["# Commands", "", "Every command explains itself: `tinytrain COMMAND --help`.", ""]
    lines += ["```text", help_of([]), "```", ""]
    for name in COMMANDS:
        lines += [f"## tinytrain {name}", "", "```text", help_of([name]), "```", ""]
        for action in actions_of(name):
            lines += [f"### tinytrain {name} {action}", "", "```text", help_of([name, action]), "```", ""]
    return "\n".join(lines)


def help_of(words: list[str]) -> str:
    """What ``--help`` prints after `words`, in lines of at most COLUMNS characters."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), COLUMNS
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            run([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return printed.getvalue().rstrip()


def actions_of(name: str) -> list[str]:
    """Names of the actions of a command, such as ``run`` of ``tinytrain bench``."""
    parser = Parser(prog=name)
    importlib.import_module(f"tinytrain.cli.commands.{COMMANDS[name][0]}").add_arguments(parser)
    found = (a for a in parser._actions if isinstance(a, _SubParsersAction))
    return [choice for action in found for choice in action.choices]


def python_reference() -> str:
    """A page with the docstrings of everything public."""
    lines = ["# Python reference", "", "Names of `tinytrain` are imported when they are first used.", ""]
    named = {f"tinytrain.{name}": f"{module}.{name}" for name, module in tinytrain._PUBLIC.items()}
    for shown, path in (named | {path: path for path in MORE}).items():
        lines += [f"::: {path}", "    options:", f"      heading: {shown}", f"      toc_label: {shown}", ""]
    return "\n".join(lines)
