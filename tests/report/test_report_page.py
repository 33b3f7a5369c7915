"""The page of an adaptation says what its JSON says, whatever the images and classes are called."""

import base64
import copy
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from PIL import Image
from readpage import Page

from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.registry import POLICIES
from tinytrain.report import RENDERERS
from tinytrain.report.html import render_html
from tinytrain.report.page.arena import OTHER, STAGES, arena_section, kind_of
from tinytrain.report.page.images import IN_ALL, PER_CLASS, WRONG
from tinytrain.report.page.thumbnails import SIDE, Thumbnails, data_uri

BIG = Budget(2**22)
HOSTILE = ("<script>alert(1)</script>", "a\x1b[31m\n\u202eb", "x" * 200)


@pytest.fixture(scope="module")
def report():
    episode = replace(toy_episode(queries=6), class_names=HOSTILE)
    return adapt(toy_network(), episode, BIG, "last_layer")


@pytest.fixture
def facts(report):
    return copy.deepcopy(report.to_json(["tinytrain", "adapt", "my photos"]))


def page_of(facts, thumbnails=None) -> Page:
    return Page(render_html(facts, thumbnails))


def test_it_shows_every_image_and_loads_nothing(report, facts):
    html = render_html(facts, report.thumbnails())
    page = Page(html)
    wrong = sum(q["after"] != q["class"] for q in facts["queries"])
    mended = sum(q["before"] != q["class"] == q["after"] for q in facts["queries"])
    assert len(page.all("img")) == len(report.episode.support) + wrong + mended
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in page.all("img"))
    outside = re.sub(r'src="data:image/jpeg;base64,[A-Za-z0-9+/=]+"', "", html)
    assert not re.search(r"https?:|src=|url\(|@import|<script|<link", outside)
    assert not any(c in html for c in "\x1b\u202e")


def test_it_says_what_the_json_says(facts):
    text = page_of(facts).text
    a = facts["accuracy"]
    for said in (a["before"], a["after"]):
        assert f"{said:.1%}" in text
    low, high = facts["estimate"]["low"], facts["estimate"]["high"]
    assert f"interval {low:.0%} to {high:.0%}" in text
    assert "tinytrain adapt 'my photos'" in text
    assert all(f"{k} {v}" in text for k, v in facts["versions"].items())
    assert f"{facts['memory']['arena']:,} of {facts['memory']['budget']:,} bytes" in text


def test_the_command_can_be_copied_whatever_its_words_are(facts):
    facts["command"] = ["tinytrain", "adapt", "ph\udcff"]
    assert r"tinytrain adapt $'ph\xff'" in page_of(facts).text


def test_a_page_of_json_alone_has_no_images_and_is_whole(facts):
    page = page_of(json.loads(json.dumps(facts)))
    assert not page.all("img") and "What it cost" in page.text


def test_the_wrong_answers_come_with_class_answer_and_confidence(report, facts):
    rows = facts["queries"]
    for k, row in enumerate(rows):
        row |= {"class": HOSTILE[2], "before": HOSTILE[2], "after": HOSTILE[2], "confidence": 0.5}
        if k in (1, 3):
            row |= {"after": HOSTILE[0], "confidence": 0.7 + k / 100}
    page = page_of(facts, report.thumbnails())
    shown = page.all("figure", "wrong")
    assert len(shown) == 2 and "The 2 wrong answers" in page.text
    assert page.text.index("73% sure") < page.text.index("71% sure"), "the most confident first"
    images = [a["title"] for a in page.all("img")][:2]
    assert images == [rows[3]["name"], rows[1]["name"]]


def test_confusion_and_accuracy_by_class_count_the_answers(facts):
    names, rows = facts["episode"]["classes"], facts["queries"]
    for row in rows:
        row["after"] = row["class"]
    first = [row for row in rows if row["class"] == names[1]]
    first[0]["after"] = names[0]
    page = page_of(facts)
    each = len(first)
    cells = re.findall(r'<td class="(hit|miss)" style="[^"]*">(\d+)</td>', render_html(facts))
    assert cells == [("hit", str(each)), ("miss", "1"), ("hit", str(each - 1)), ("hit", str(each))]
    order = [page.text.index(f"{right} of {each}") for right in (each - 1, each)]
    assert order == sorted(order), "the worst class first"


def test_a_refused_adaptation_is_said_first_and_what_it_would_have_been(facts):
    reasons = [{"code": "labels", "text": "<b>labels</b>"}]
    facts["guard"] |= {"accepted": False, "kept": "cosine", "reasons": reasons}
    facts["accuracy"]["withheld"] = 0.125
    page = page_of(facts)
    assert page.all("div", "refused") and "not adapted to 3 classes" in page.text
    assert page.text.index("Not kept") < page.text.index("Answers for held-out images")
    assert "<b>labels</b>" in page.text and "12.5%" in page.text
    assert "put right" not in page.text and "None of it was kept." in page.text


@pytest.mark.parametrize(
    "estimate, said",
    [
        ({"accuracy": 0.8, "low": 0.7, "high": 0.9, "method": "cross-validation", "network": "unadapted",
          "n": 24, "folds": 4, "why": None},
         "about 80% expected on new images if none is left open (95 % interval 70% to 90%), "
         "cross-validated on 24 images in 4 folds before training"),
        ({"accuracy": None, "low": None, "high": None, "method": "unknown", "network": "adapted", "n": 0,
          "folds": None, "why": "take 3 more"}, "take 3 more"),
    ],
)  # fmt: skip
def test_the_conclusion_is_the_estimate_of_the_report(facts, estimate, said):
    page = page_of(facts | {"estimate": estimate})
    assert said in page.text
    shown = "Accuracy unknown" if estimate["accuracy"] is None else "about 80% right expected"
    assert shown in page.text


def test_suspects_stand_first_in_their_class_with_a_frame_and_the_class_they_look_like(report, facts):
    labels = report.episode.support.labels.tolist()
    last = [i for i, label in enumerate(labels) if label == 1][-1]
    names = report.episode.support.names
    facts["guard"]["suspects"] = [
        {"index": last, "name": names[last], "given": HOSTILE[1], "looks_like": HOSTILE[0],
         "reason": "mislabelled", "score": 2.0},
    ]  # fmt: skip
    page = page_of(facts, report.thumbnails())
    assert len(page.all("figure", "suspect")) == 1 and "looks like" in page.text
    wrong = len(page.all("figure", "wrong"))
    shown = [a["title"] for a in page.all("img")]
    support = shown[len(shown) - len(labels) :]
    assert support[0] == names[last] and wrong < len(shown)
    assert "1 support image looks suspicious" in page.text
    assert names[last] in page_of(facts).text, "without thumbnails, by name"


def test_skipped_files_and_duplicates_are_listed_with_their_reasons(facts):
    facts["skipped"] = [
        {"file": f"{k}\x1b.jpg", "reason": "<i>broken</i>", "kind": kind}
        for k, kind in enumerate(("damaged", "beside", "new-kind"))
    ]
    facts["duplicates"] = [{"files": ["a.jpg", "b.jpg"], "classes": ["x"], "where": "one class"}]
    page = page_of(facts)
    assert "3 files were skipped" in page.text and "1 image is there more than once" in page.text
    assert page.text.count("<i>broken</i>") == 3 and "new-kind" in page.text
    assert page.text.index("0\\x1b.jpg") < page.text.index("The others") < page.text.index("1\\x1b.jpg")
    targets = {a["id"] for _, a in page.found if "id" in a}
    links = {a["href"].removeprefix("#") for a in page.all("a")}
    assert links and links <= targets


def many_classes(way: int, shots: int, queries: int) -> tuple[dict, Thumbnails]:
    """A report as of `way` classes of random images, all answered wrongly; its thumbnails."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (16, 128, 128, 3), np.uint8)
    names = tuple(f"class number {c}" for c in range(way))

    def images(each: int) -> Images:
        labels = np.repeat(np.arange(way, dtype=np.int32), each)
        return Images(labels, tuple(f"{i}.jpg" for i in range(len(labels))), lambda i, size: pixels[i % 16])

    episode = Episode(images(shots), images(queries), names)
    facts = adapt(toy_network(), toy_episode(), BIG, "none").to_json()
    facts["episode"] |= {"classes": list(names), "shots": [shots] * way}
    facts["queries"] = [
        {"name": episode.query.names[i], "class": names[c], "before": names[c], "after": names[c - 1],
         "confidence": 0.9}
        for i, c in enumerate(episode.query.labels)
    ]  # fmt: skip
    facts["guard"]["suspects"] = [
        {"index": i, "name": f"{i}.jpg", "given": "x", "looks_like": "y", "reason": "off-topic", "score": 2.0}
        for i in range(0, len(episode.support), 2)
    ]
    return facts, Thumbnails(episode, (128, 128, 3))


@pytest.mark.parametrize("way, shots, queries", [(2, 30, 40), (200, 5, 5), (1000, 1, 0)])
def test_a_page_stays_small_however_many_classes_and_images_there_are(way, shots, queries):
    facts, thumbnails = many_classes(way, shots, queries)
    facts["accuracy"] |= {"after": 0.0, "n_query": way * queries}
    html = render_html(facts, thumbnails)
    assert len(html) < 5_000_000, "of noise, which takes twice the bytes of photographs"
    page = Page(html)
    shown, wrong = len(page.all("img")), len(page.all("figure", "wrong"))
    assert wrong == min(WRONG, way * queries)
    assert shown - wrong <= min(IN_ALL + PER_CLASS, way * max(PER_CLASS, shots))
    if way == 1000:
        assert f"and {way - IN_ALL} more classes" in page.text
    if way == 200:
        assert re.search(r"and [\d,]+ more\n", page.text)


@each("shape", [(128, 128, 3), (64, 200, 1), (10, 10, 3), (300, 20, 2)])
def test_a_thumbnail_is_a_small_jpeg_of_the_same_proportions(shape):
    image = np.zeros(shape, np.uint8)
    uri = data_uri(image)
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as small:
        assert small.format == "JPEG" and max(small.size) == min(SIDE, max(shape[:2]))
        assert small.size[0] / small.size[1] == pytest.approx(shape[1] / shape[0], rel=0.2)


@each("policy", [p for p in POLICIES if not p.startswith("sparse_update")])
def test_every_buffer_of_every_policy_has_a_kind_and_every_layer_a_bar(policy):
    report = adapt(toy_network(), toy_episode(), BIG, policy)
    facts = report.to_json()
    others = {row["name"] for row in facts["arena_table"] if kind_of(row["name"]) == OTHER}
    assert others <= {"result", "answers", "beside the arena"}
    page = page_of(facts)
    modules = sum(row["layer"] >= len(facts["layers"]) for row in facts["selection"])
    assert len(page.all("rect", "frozen")) == len(facts["layers"]) + modules
    assert len(page.all("rect", "bias")) == sum(row["bias"] for row in facts["selection"])


def test_the_arena_has_a_column_for_every_stage_and_a_box_for_every_buffer(facts):
    page = Page(arena_section(facts))
    assert len(page.all("rect", "buffer")) == len(facts["arena_table"])
    assert max(row["last"] for row in facts["arena_table"]) == len(STAGES) - 1
    for box in page.all("rect", "buffer"):
        x, width = (float(box[key].rstrip("%")) for key in ("x", "width"))
        assert 0 <= x < x + width <= 100.01
        assert float(box["y"]) >= -0.01 and float(box["y"]) + float(box["height"]) <= 340.01


def test_other_reports_take_the_thumbnails_and_need_none(report, facts):
    for suffix in (".json", ".txt"):
        assert RENDERERS[suffix](facts, report.thumbnails()) == RENDERERS[suffix](facts)


def test_an_image_that_is_gone_is_a_grey_square_and_no_error(report, facts):
    def gone(i, size):
        raise InputError("file-missing", "gone")

    lost = replace(report.episode, support=replace(report.episode.support, read=gone))
    page = page_of(facts, Thumbnails(lost, report.network.input.shape))
    grey = data_uri(np.full((SIDE, SIDE, 1), 128, np.uint8))
    assert sum(image["src"] == grey for image in page.all("img")) == len(lost.support)
