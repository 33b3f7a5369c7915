"""Records that no run wrote: reported or refused by their line, never a traceback."""

import html as html_package
import json
import re
from itertools import product

import pytest
from cases import each
from toybench import record, written

from tinytrain.base.errors import InputError
from tinytrain.meta.bench.document import html, markdown
from tinytrain.meta.bench.pages import write_report
from tinytrain.meta.bench.record import checked
from tinytrain.meta.bench.sections import report_blocks
from tinytrain.meta.bench.tables import tables
from tinytrain.meta.run_log import read_log


def paths_of(value, path=()):
    """The way to every value of a record."""
    for key, inner in value.items():
        yield (*path, key)
        if isinstance(inner, dict):
            yield from paths_of(inner, (*path, key))


def with_change(value, path, change):
    key, *rest = path
    if rest:
        return value | {key: with_change(value[key], rest, change)}
    return {k: v for k, v in value.items() if k != key} | change


# JSON that no run writes, and what stands for no value at all.
ODD = (
    "null", "true", "-1", "0", "1e-320", "0.3", "1e308", "1e999", "-Infinity", "NaN", "9" * 400, "9" * 5000,
    '""', '"1e-4"', '"\\ud800"', '"\\u202e\\n"', '"<script>"', '"' + "x" * 200 + '"', '"' + "x" * 1000 + '"',
    "[]", "[[1]]", "{}", '{"": 1}', '{"wall": 1}', "[" * 9999 + "]" * 9999, '{"a":' * 9999 + "}" * 9999,
    "left out",
)  # fmt: skip


@each("path", list(paths_of(record(refused="guard"))), ids=".".join)
def test_any_value_in_any_place_of_a_record_is_reported_or_refused_by_its_line(tmp_path, path):
    log = tmp_path / "log"
    for odd in ODD:
        change = {} if odd == "left out" else {path[-1]: "ODD"}
        line = json.dumps(with_change(record(refused="guard"), path, change)).replace('"ODD"', odd)
        log.write_text(json.dumps(record(episode=1)) + "\n" + line + "\n")
        try:
            facts = tables(read_log(log, checked))
            json.dumps(facts, allow_nan=False)
            blocks = report_blocks(facts)
            assert html("title", blocks) and markdown("title", blocks)
        except InputError as refused:
            assert refused.code in ("file-damaged", "run-mismatch") and len(str(refused)) < 1000


NO_RECORDS = (
    b"\xff\xfe", b"\x00", b"null", b"[]", b'"text"', b"1", b"{", b"[" * 99999, b"9" * 9999, b"NaN", b"",
    b"\xef\xbb\xbf{}", json.dumps(record()).encode("utf-16"), json.dumps(record()).encode()[:-1],
    json.dumps([record()]).encode(),
)  # fmt: skip


@each("line", NO_RECORDS)
def test_lines_that_are_no_records_are_refused_by_their_number(tmp_path, line):
    (tmp_path / "log").write_bytes(json.dumps(record()).encode() + b"\n" + line + b"\n")
    with pytest.raises(InputError, match=r"line [23] is no record of ours") as refused:
        write_report([tmp_path / "log"], tmp_path / "report")
    assert refused.value.code == "file-damaged" and not (tmp_path / "report").exists()


@pytest.mark.parametrize(("labels", "packs"), [(1000, 1), (100, 30)])
def test_more_policies_than_can_be_compared_are_refused_at_once(labels, packs):
    rows = [record(f"policy {k}", pack=f"pack {k % packs}") for k in range(max(labels, packs))]
    with pytest.raises(InputError, match="pairs of policies on a pack") as refused:
        tables(rows)
    assert refused.value.code == "unsupported"


MARKUP = (
    "<script>alert(1)</script>", "a|b", "`code`", "**bold**", "_slanted_", "~~gone~~", "$x$",
    "[text](javascript:alert(1))", "![picture](https://example.org/x.png)", "https://example.org",
    "www.example.org", "&lt;b&gt;", "back\\slash",
)  # fmt: skip


def shown(cell: str) -> str:
    """A cell of our Markdown as a reader of it shows it."""
    return html_package.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell))


@each("place, name", product(["backbone", "pack", "sampler", "label", "code"], MARKUP))
def test_names_of_a_record_are_shown_in_markdown_as_they_are(tmp_path, place, name):
    log = written(tmp_path / "log", *(record(episode=k, **{place: name}) for k in (0, 1)))
    write_report([log], tmp_path)
    text = (tmp_path / "report.md").read_text()
    without_links_of_ours = re.sub(r"\]\([a-z0-9-]+\.svg\)", "]", text)
    assert name in shown(without_links_of_ours)
    for sign in ("<", "](", "://", "www.", " **b", "`c", "~~", "$x", " _s"):
        assert not re.search(r"(?<!\\)" + re.escape(sign), without_links_of_ours), sign
    tables_of_it = [block for block in text.split("\n\n") if block.startswith("|")]
    for lines in map(str.splitlines, tables_of_it):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_records_of_version_0_2_are_read():
    kept = record()
    old = json.loads(json.dumps(kept).replace("trained_parameters", "trained_numbers"))
    assert checked(old)["memory"] == checked(kept)["memory"]
