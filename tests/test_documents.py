"""Scripts and documents name files that exist, and links between documents lead somewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree

from cases import each

ROOT = Path(__file__).parents[1]
PATTERNS = (
    "*.md", "docs/*.md", "tests/*.md", "results/*.md", "results/*/*.md", ".ci/*", "firmware_sim/pi/*.sh",
)  # fmt: skip
FILES = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
DOCUMENTS = [path for path in FILES if path.suffix == ".md" and path.name != "template.md"]
FIGURES = [
    *ROOT.glob("results/*/*.md"),
    ROOT / "RESULTS.md",
    ROOT / "docs" / "tried.md",
    ROOT / "tests" / "README.md",
]
DIARY = re.compile(
    r"(?:was|were) asked for|asked (?:of|were)|aimed at|\bmissed\b|busy (?:machine|core)|other work"
    r"|run was ended|scripts? (?:that is |that are )?not (?:part of|in) the project|targets? (?:was|were) met"
)
START = r"(?<![\w./-])"
NAMED = re.compile(rf"{START}(?:[a-z_]+/)*test_\w+\.py|{START}(?:tests|tinytrain|meta|docs|\.ci)/[\w/.-]*\w")
LINK = re.compile(r"\]\(([^)\s]+)\)")
GENERATED = ("commands.md", "python-reference.md")  # pages that are made when the site is built
ON_SITE = re.compile(
    r"(?:\.\./)*(?:docs/|(?!README\.md#)(?:[A-Z]+|tests/README|results/\w+/README)\.md)|[\w-]+\.md|images/|#"
)
COPIED = ("results.md", "changelog.md", "contributing.md", "tests.md")  # documents that lie beside docs/


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@each("path", FILES, ids=name_of)
def test_every_file_that_is_named_exists(path):
    names = NAMED.findall(path.read_text())
    missing = {n for n in names if not (ROOT / n).exists() and not (ROOT / "tests" / n).exists()}
    assert not missing, f"{path.name} names {sorted(missing)}"


def test_every_place_where_something_new_goes_exists():
    """Places are told from the folder of the project on, from the package on, or beside a file of the row."""
    _, _, page = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things go")
    places = set(re.findall(r"`([\w/]+(?:/|\.py|\.md))`", page.partition("\n## ")[0]))
    folders = [ROOT / folder for folder in ("", "tinytrain", "tinytrain/heads", "tinytrain/policies")]
    lost = {place for place in places if not any((folder / place).exists() for folder in folders)}
    assert len(places) > 30 and not lost, f"CONTRIBUTING.md names {sorted(lost)}"


@each("path", FIGURES, ids=name_of)
def test_results_say_what_was_measured_and_not_how_the_work_went(path):
    assert not DIARY.findall(re.sub(r"\s+", " ", path.read_text()))


def test_files_are_named_at_all():
    named = {path.name: len(NAMED.findall(path.read_text())) for path in FILES}
    assert named["campaigns"] > 10 and named["CONTRIBUTING.md"] > 5


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a Markdown page."""
    text = re.sub(r"^( *)```.*?^\1```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@each("path", DOCUMENTS, ids=name_of)
def test_no_chapter_stands_twice_in_a_page(path):
    text = re.sub(r"^( *)```.*?^\1```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^## .+$", text, re.M)
    assert len(headings) == len(set(headings))


def lost_links(path: Path) -> list[str]:
    """Links of a page that lead to no file of the project, or to no heading of it."""
    lost = []
    for link in LINK.findall(path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if "://" in link or (name in GENERATED and path.parent.name == "docs"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    return lost


@each("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(path):
    assert not lost_links(path)


@each("path", [path for path in DOCUMENTS if path != ROOT / "README.md"], ids=name_of)
def test_every_link_leads_to_a_page_of_the_site_too(path):
    links = LINK.findall(path.read_text())
    assert not [link for link in links if "://" not in link and not ON_SITE.match(link)]


def test_a_lost_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](#one-two) [b](#three) [c](other.md) [d](page.md#one-two)\n")
    assert lost_links(page) == ["#three", "other.md"]


@each("path", DOCUMENTS, ids=name_of)
def test_documents_name_no_folder_of_a_machine(path):
    assert not re.findall(r"(?<![\w~])/(?:tmp|root|work|mnt|Users)/\S*", path.read_text())


@each("path", sorted(ROOT.glob("docs/images/*")), ids=lambda path: path.name)
def test_pictures_of_documents_are_whole_and_small(path):
    assert path.stat().st_size < 150_000
    if path.suffix == ".svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    else:
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    listed = set(re.findall(r"([\w-]+\.md)", navigation))
    assert {path.name for path in ROOT.glob("docs/*.md")} == listed - {*GENERATED, *COPIED}
