"""The files of the page: small, whole, without a script or a word that is not in its place."""

import json
import re
from importlib.resources import files

from cases import each

from tinytrain.episode.kinds import KINDS

PAGE = files("tinytrain.serve") / "page"
NAMES = ("page.html", "page.css", "page.js", "words.js")
TEXT = {name: (PAGE / name).read_text(encoding="utf-8") for name in NAMES}
WORDS = json.loads(TEXT["words.js"].partition("WORDS =")[2].rstrip("; \n"))
BYTES = 80_000
# Keys that the page puts together from what the server says.
MADE = r"(camera|stage|kept|error|take)\.[\w -]+(\.why)?|(files|photo)\.name|near copy|instead|.+\.no image"


def test_the_page_is_small():
    assert sum(len(text.encode()) for text in TEXT.values()) <= BYTES


def test_a_folder_that_is_dropped_on_the_page_gives_files_of_every_kind():
    item = re.compile(re.search("const ITEM = /(.+)/i", TEXT["page.js"])[1], re.IGNORECASE)
    suffixes = [suffix for kind in KINDS.values() if not kind.aside for suffix in kind.suffixes]
    assert ".wav" in suffixes and not [suffix for suffix in suffixes if not item.search(suffix)]


def test_there_is_no_other_file():
    assert {path.name for path in PAGE.iterdir()} == {*NAMES}


def test_no_script_or_style_is_inside_the_page_and_nothing_comes_from_elsewhere():
    html = TEXT["page.html"]
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)|javascript:", html)
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', html)) == {"data:,", "page.css", "page.js"}
    for name in ("page.css", "page.js", "words.js"):
        assert not re.findall(r"https?://|@import|url\(|\beval\(|innerHTML", TEXT[name]), name


@each("language", sorted(WORDS))
def test_every_language_has_every_word_with_the_same_blanks(language):
    ours, english = WORDS[language], WORDS["en"]
    assert ours.keys() == english.keys() and all(ours.values())
    for key, text in ours.items():
        assert sorted(re.findall(r"{\w+}", text)) == sorted(re.findall(r"{\w+}", english[key])), key


def test_every_word_is_used_and_every_word_that_is_used_is_there():
    page = TEXT["page.html"] + TEXT["page.js"]
    keys = {re.sub(r"\.(one|other)$", "", key) for key in WORDS["en"]}
    quoted = set(re.findall(r'"([\w. ]+)"', page))
    assert not {key for key in keys - quoted if not re.fullmatch(MADE, key)}
    said = set(re.findall(r'\bt\("([\w. ]+)"', page))
    said |= set(re.findall(r'data-(?:t|label|alt|title|placeholder|next)="([\w.]+)"', page))
    assert len(said) > 80 and said <= keys


def test_no_word_needs_an_expert():
    jargon = "support|episode|epoch|embedding|arena|backbone|fine-tun|inference|hyper|gradient|logit|Inferenz"
    texts = [text for words in WORDS.values() for text in words.values()]
    assert not [text for text in texts if re.search(jargon, text, re.IGNORECASE)]
