"""What a person reads first: eight lines at most, whatever the report holds."""

import subprocess
from unicodedata import combining, east_asian_width

import pytest
from cases import each

from tinytrain.base.shell import quoted
from tinytrain.report.conclusion import LINES, Written, conclude, how_often_wrong
from tinytrain.report.html import conclusion
from tinytrain.report.layout import Command, Item, fitted, short, wrapped

ESTIMATE = {"accuracy": 0.82, "low": 0.69, "high": 0.9, "method": "held-out", "network": "adapted", "n": 50,
            "folds": None, "why": None}  # fmt: skip
HOSTILE = "\x1b[31mred\nline" + "x" * 300


def report(**more) -> dict:
    """The keys of a report that a conclusion reads: kept, judged by 50 held-out images."""
    return {
        "accuracy": {"before": 0.76, "before_cosine": 0.66, "after": 0.82, "difference": [-0.02, 0.06, 0.16],
                     "n_query": 50, "left_out": 0.123, "withheld": None,
                     "named": {"right": 0.74, "open": 0.2, "wrong": 0.06}},
        "estimate": ESTIMATE,
        "guard": guard("adapted"),
        "episode": {"n_support": 25, "classes": ["apple", "pear"], "shots": [12, 13]},
        "selection": [{"layer": 3}],
        "skipped": [],
        "duplicates": [],
        "warnings": [],
    } | more  # fmt: skip


def guard(kept: str, *reasons: str, suspects=(), code: str = "labels") -> dict:
    facts = {"accepted": kept != "cosine", "kept": kept, "forced": kept == "adapted" and bool(reasons)}
    texts = [{"code": code, "text": text} for text in reasons]
    return facts | {"reasons": texts, "suspects": list(suspects), "measures": {}}


def suspect(k: int, name: str = "apple/a{}.jpg", like: str = "pear", given: str = "apple") -> dict:
    found = {"index": k, "name": name.format(k), "given": given, "looks_like": like}
    return found | {"reason": "mislabelled" if k % 2 else "off-topic", "score": 2.0}


def estimate(**more) -> dict:
    return ESTIMATE | more


NOT_JUDGED = {"before": None, "before_cosine": None, "after": None, "difference": None, "n_query": 0,
              "left_out": 1.0, "withheld": None, "named": None}  # fmt: skip
REASON = (
    "7 of 25 images look more like another class than their own, most of all a3.jpg (apple, looks like pear)"
)
NEXT = "tinytrain", "predict", "fruit.safetensors", "new.jpg"
WRITTEN = Written("fruit.safetensors", 216_312, None, None, "r.html", NEXT)
HELD = """\
accuracy    74% named rightly, 20% left open, 6% wrong of 50 held-out images; 82% right if none is
            left open (95 % interval 69% to 90%)"""
END = """\
written     fruit.safetensors (216.3 kB), report r.html
next        tinytrain predict fruit.safetensors new.jpg
"""
# Reports and their conclusions without END.
GOLDEN = {
    "held-out": (
        report(),
        f"""\
{HELD}; 76% with a new head alone, 66% as it was
kept        training gains 6 points (95 % interval -2 to +16); that may be chance
""",
    ),
    "cross-validated": (
        report(
            accuracy=NOT_JUDGED,
            estimate=estimate(accuracy=0.781, low=0.61, high=0.9, method="cross-validation",
                              network="unadapted", n=25, folds=5),
        ),
        """\
accuracy    about 78% expected on new images if none is left open (95 % interval 61% to 90%),
            cross-validated on 25 images in 5 folds before training; --queries 3 would measure it
kept        the adaptation; nothing speaks against it
""",
    ),
    "labels that hold": (
        report(
            guard=guard("adapted") | {"measures": {"halves_adapted": 0.75, "halves_cosine": 0.5}},
            accuracy=NOT_JUDGED,
            estimate=estimate(accuracy=None, low=None, high=None, method="unknown", n=2, why="it is"),
        ),
        """\
accuracy    unknown: it is
kept        the adaptation; nothing speaks against it; labels hold: cross-validated, training gains
            25 points over prototypes
""",
    ),
    "refused": (
        report(
            guard=guard("cosine", REASON, suspects=[suspect(3)]),
            accuracy=report()["accuracy"] | {"after": 0.66, "difference": [-0.2, -0.1, 0.0], "withheld": 0.4},
            estimate=estimate(accuracy=0.66, low=0.52, high=0.78, network="unadapted"),
        ),
        """\
refused     the old weights stay: 7 of 25 images look more like another class than their own, most
            of all a3.jpg (apple, looks like pear)
accuracy    74% named rightly, 20% left open, 6% wrong of 50 held-out images; 66% right if none is
            left open (95 % interval 52% to 78%), without training, 40% with the training
suspicious  1 of 25 images (usually none wrong): apple/a3.jpg looks like pear
""",
    ),
    "not trained": (
        report(
            guard=guard("head", "all 40 images are recognised without themselves as it is", code="no-gain"),
            selection=[],
        ),
        f"""\
{HELD}
kept        a new head alone: training would not help here, all 40 images are recognised without
            themselves as it is (--train trains all the same)
""",
    ),
    "trained in vain": (
        report(
            guard=guard("head", "adapted it is 12 points worse", code="left-out"),
            accuracy=report()["accuracy"] | {"withheld": 0.7},
        ),
        f"""\
{HELD}, 70% with the training
kept        a new head alone, the training is not kept: adapted it is 12 points worse
""",
    ),
    "forced": (
        report(guard=guard("adapted", REASON)),
        f"""\
{HELD}; 76% with a new head alone, 66% as it was
forced      kept only because of --force, although 7 of 25 images look more like another class than
            their own, most of all a3.jpg (apple, looks like pear)
""",
    ),
    "many suspects, skipped files, duplicates and warnings": (
        report(
            guard=guard("adapted", suspects=[suspect(k) for k in range(70)]),
            episode={"n_support": 80, "shots": [40, 40]},
            duplicates=[
                {"files": ["apple/a.jpg", "apple/b.jpg"], "classes": ["apple"], "where": "one class"},
                {"files": ["apple/a.jpg", "pear/b.jpg"], "classes": ["apple", "pear"],
                 "where": "several classes"},
            ],
            skipped=[{"file": f"{k}.txt", "kind": "other-kind", "reason": "no image"} for k in range(90)]
            + [{"file": "photos/pear/cut.jpg", "kind": "damaged", "reason": "is cut"}],
            warnings=["class 'pear' has 2 of 4 images", "class 'apple' has 3 of 4 images"],
        ),
        f"""\
{HELD}; 76% with a new head alone, 66% as it was
kept        training gains 6 points (95 % interval -2 to +16); that may be chance
suspicious  70 of 80 images (usually 65 wrong), 2 duplicates (--verbose names them)
skipped     91 files, 1 damaged, 90 of another kind: pear/cut.jpg; 0.txt; and 89 more (--verbose)
warnings    2: class 'pear' has 2 of 4 images; class 'apple' has 3 of 4 images
""",
    ),
}  # fmt: skip


@each("named, wrong", [(1, "none"), (6, "none"), (10, "4"), (23, "17")])
def test_of_100_right_images_6_are_suspects_too(named, wrong):
    assert how_often_wrong(named, 100) == f"usually {wrong} wrong"


def test_where_classes_look_alike_suspects_say_little_and_wrong_labels_of_others_stay_counted():
    alike, wrong = how_often_wrong(30, 100, right=0.5), how_often_wrong(23, 100, right=0.7)
    assert alike == "as classes look alike to the network, few may be wrong"
    assert wrong == how_often_wrong(23, 100) == "usually 17 wrong"


@each("name", GOLDEN)
def test_a_conclusion_has_this_form(name):
    facts, wanted = GOLDEN[name]
    assert "\n".join(conclude(facts, WRITTEN)) + "\n" == wanted + END


def test_a_delta_that_was_trained_in_int8_is_called_so():
    line = END.splitlines()[0] + "; trained in int8"
    assert conclude(report(memory={"precision": "int8"}), WRITTEN)[3] == line


def hostile(n: int) -> dict:
    """A report full of names that are long and hold control characters, `n` of each kind."""
    names = [f"{k}{HOSTILE}" for k in range(n)]
    suspects = [suspect(k, name, like=HOSTILE, given=HOSTILE) for k, name in enumerate(names)]
    doubles = [{"files": [name] * 9, "classes": [HOSTILE], "where": "both sides"} for name in names]
    return report(
        guard=guard("cosine", *(f"{name} is wrong" for name in names), suspects=suspects),
        duplicates=doubles,
        skipped=[{"file": name, "kind": "damaged", "reason": HOSTILE} for name in names],
        warnings=names,
        episode={"n_support": 9 * n, "classes": names, "shots": [9] * n},
        estimate=estimate(accuracy=None, why="; ".join(names)),
    )


@pytest.mark.parametrize("n", [1, 2, 200])
@pytest.mark.parametrize("width", [100, 80, 60])
@pytest.mark.parametrize("options", [0, 6, 50])
def test_nothing_makes_a_conclusion_longer_than_eight_lines_or_wider_than_asked_for(n, width, options):
    words = ("tinytrain", "adapt", *(f"--option-{k}" for k in range(options)))
    lines = conclude(hostile(n), Written(HOSTILE, 10**12, HOSTILE, 10**9, HOSTILE, words), width)
    assert len(lines) <= LINES and max(map(len, lines[:-3])) <= width
    assert options > 20 or max(map(len, lines)) <= width, "a command that has no room stays whole"
    assert all(line.isprintable() for line in lines)
    starts = [line.split()[0] for line in lines if line[0] != " "]
    assert starts[:2] == ["refused", "accuracy"] and starts[-2:] == ["written", "next"]
    assert set(starts) >= {"suspicious", "skipped"}


def test_a_warning_is_shown_without_the_code_that_scripts_read():
    facts = report(warnings=["skipped image-unreadable: 'a.jpg' is cut: 3 bytes", "class 'a': few"])
    assert conclude(facts)[3] == "warnings    2: skipped 'a.jpg' is cut: 3 bytes; class 'a': few"


@each("name", GOLDEN)
def test_what_training_has_seen_is_never_shown_as_an_accuracy(name):
    facts = GOLDEN[name][0]
    facts = facts | {"accuracy": facts["accuracy"] | {"left_out": 0.987}}
    assert "98" not in "\n".join(conclude(facts)) and "99%" not in "\n".join(conclude(facts))


def test_without_training_there_is_nothing_to_compare_with():
    line, *more = "\n".join(conclude(report(selection=[], guard=guard("head")))).split("\nkept        ")
    assert line.endswith("left open (95 % interval 69% to 90%)")
    assert more == ["only the head was fitted, no weight was trained"]


@each(
    "difference, words",
    [
        ([0.02, 0.06, 0.16], "training gains 6 points"),
        ([-0.3, -0.2, -0.1], "training loses 20 points"),
        ([-0.1, 0.0, 0.1], "as many right as with a new head alone (95 % interval -10 to +10)"),
        ([0.0, 0.0, 0.0], "as many right"),
    ],
)
def test_a_gain_is_called_chance_only_if_its_interval_holds_zero(difference, words):
    text = conclude(report(accuracy=report()["accuracy"] | {"difference": difference}))[2]
    assert words in text and "chance" not in text


WORDS = ("plain", "two words", "it's", "$HOME", "a\\b", "new\nline", "bell\a'\\", "*", "",
         "\udcff.jpg", "\u00a0")  # fmt: skip


@each("word", WORDS)
def test_a_shell_reads_a_quoted_word_as_it_was(word):
    assert quoted(word).isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {quoted(word)}"], capture_output=True, check=True)
    assert done.stdout == word.encode(errors="surrogateescape")


@pytest.mark.parametrize("count", [1, 12, 60])
def test_a_shell_joins_the_lines_of_a_command(count):
    words = ("printf", "%s,", *(f"word {k}" for k in range(count)))
    lines = Command("next", words).lines(100)
    assert len(lines) <= 3 and (len(lines) == 1 or max(map(len, lines)) <= 100)
    script = "\n".join(lines).removeprefix("next")
    assert subprocess.check_output(["bash", "-c", script], text=True) == ",".join(words[2:]) + ","


def test_more_room_shows_more_examples_in_turn_and_the_first_items_get_it_first():
    items = [Item(label, "text", tuple(f"{label} {k}" for k in range(99))) for label in ("one", "two")]
    lines = fitted(items, 100, 5)
    assert len(lines) == 5 and lines[3].startswith("two") and "and 80 more (--verbose)" in lines[4]
    assert "one 39" not in " ".join(fitted(items, 100, 2)) and len(fitted(items, 100, 2)) == 2
    whole = " ".join(fitted(items, 100, None))
    assert "one 98" in whole and "two 98" in whole


def test_no_text_is_cut_while_another_item_shows_examples():
    kinds = ["damaged"] * 2 + ["other-kind"] * 4 + ["beside", "bin", "placeholder"]
    skipped = [{"file": f"photos/apple/{k}.x", "kind": kind} for k, kind in enumerate(kinds)]
    facts = report(skipped=skipped, guard=guard("adapted", suspects=[suspect(k) for k in range(6)]))
    wide, narrow = (" ".join("\n".join(conclude(facts, WRITTEN, width)).split()) for width in (100, 80))
    text = "skipped 9 files, 2 damaged, 4 of another kind, 1 beside the folders, 1 called like a bin"
    assert f"{text}, 1 not downloaded" in wide
    assert f"{text.rsplit(',', 1)[0]} ... written" in narrow, "cut behind a whole part, and"
    assert "suspicious 6 of 25 images skipped" in narrow or "(--verbose names them)" in narrow


def test_the_page_begins_with_the_fraction_of_the_text_also_where_labels_may_be_wrong():
    facts = report(estimate=estimate(accuracy=0.88))
    text = " ".join("\n".join(conclude(facts)).split())
    assert text.startswith("accuracy 74% named rightly") and "about 88% expected" in text
    assert ">74% named rightly<" in conclusion(facts)


def test_it_is_not_said_how_many_suspects_are_wrong_if_training_proves_the_labels_right():
    for low, words in ((0.01, "which tells them apart"), (-0.01, "usually ")):
        suspects = guard("adapted", suspects=[suspect(k) for k in range(6)])
        facts = report(guard=suspects)
        facts["accuracy"] = facts["accuracy"] | {"difference": [low, 0.06, 0.16]}
        assert words in " ".join("\n".join(conclude(facts)).split())


def test_letters_that_take_two_columns_are_counted_as_two():
    item = Item("classes", "\u82f9\u679c " * 60 + "\u82f9" * 300, ("e\u0301" * 80,))
    for most in (None, 3):
        lines = item.lines(80, most)
        widths = [sum(1 + (east_asian_width(c) == "W") - bool(combining(c)) for c in x) for x in lines]
        assert max(widths) <= 80 and widths[0] > 70
    assert "".join(item.lines(80)).count("\u82f9") == 360


def test_blanks_inside_a_line_stay_and_a_long_word_is_broken():
    assert wrapped("  7 name      3 of 4", 100) == ["  7 name      3 of 4"]
    assert wrapped("a " + "x" * 100, 52) == ["a", "x" * 40, "x" * 40, "x" * 20]
    assert wrapped("", 52) == [""]


def test_leaving_one_out_and_wrong_labels_are_said_in_words():
    facts = report(
        accuracy=NOT_JUDGED, estimate=estimate(method="cross-validation", network="unadapted", n=9, folds=9)
    )
    said = " ".join(" ".join(conclude(facts)).split())
    assert "each of 9 images left out once before training" in said and "background" not in said
    facts["episode"] |= {"classes": ["apple", "background"]}
    assert " training; beside the background, 'tinytrain check' says how many are" in " ".join(
        " ".join(conclude(facts)).split()
    )
    text = " ".join("\n".join(conclude(report(estimate=estimate(accuracy=0.88)))).split())
    assert "82% right if none is left open, about 88% expected on new images" in text


def test_how_to_measure_the_result_itself_is_said_if_there_are_images_for_it():
    loo = estimate(method="cross-validation", network="unadapted", n=9, folds=9)
    for shots, words in (([6, 40], "--queries 2 "), ([20, 21], "--queries 5 "), ([5, 40], None)):
        facts = report(accuracy=NOT_JUDGED, estimate=loo, episode={"n_support": 9, "shots": shots})
        said = " ".join(conclude(facts))
        assert ("--queries" not in said) if words is None else (words in said)


def test_nothing_speaks_against_an_adaptation_only_if_no_image_is_suspicious():
    facts = report(
        accuracy=NOT_JUDGED,
        guard=guard("adapted", suspects=[suspect(1)]),
        estimate=estimate(accuracy=None, why="few"),
    )
    assert conclude(facts)[1] == "kept        the adaptation; but look at the suspicious images"


def test_an_adaptation_to_single_images_is_said_to_be_unjudged():
    single = {"n_support": 2, "classes": ["apple", "pear"], "shots": [1, 1]}
    facts = report(accuracy=NOT_JUDGED, episode=single, estimate=estimate(accuracy=None, why="few"))
    assert conclude(facts)[1].endswith("with one image of every class it could not be judged")


def test_a_long_name_keeps_its_beginning_and_its_end():
    assert short("a" * 48) == "a" * 48
    name = short("photos/apple/" + "x" * 90 + "/last.jpg")
    assert name.startswith("photos/apple") and name.endswith("/last.jpg") and len(name) == 48
