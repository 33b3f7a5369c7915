"""What an adaptation came to, in eight lines at most: what a person reads first."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial

from tinytrain.base.answer import OLD_KEYS
from tinytrain.base.class_names import BACKGROUND
from tinytrain.base.units import format_bytes
from tinytrain.guard.suspects import wrong_among
from tinytrain.report.layout import WIDTH, Command, Item, count_of, fitted, short, worded

LINES = 8
# What duplicates in more than one place mean.
WHERE = {"several classes": " (one label is wrong)", "both sides": " (on both sides of the split)"}
LOOK = "but look at the suspicious images"
UNSEEN = "of a generated domain that no stage of this backbone's training saw"
ENOUGH = 6  # images in every class, of which some can be held out
ALIKE = 0.25  # of the images that are no suspects: if more are not recognised, the suspects say little
SKIPPED = "skipped "  # begins a warning that names a file
# Kinds of skipped files in words, and those of which every file is named: they should have been images.
KINDS = {
    "too-large": "too large",
    "other-kind": "of another kind",
    "beside": "beside the folders",
    "inside": "in inner folders",
    "decoder": "that cannot be decoded here",
    "placeholder": "not downloaded",
    "bin": "called like a bin",
}
NAMED = ("damaged", "too-large")
CODE = re.compile("[a-z]+(-[a-z]+)+")  # of an error


@dataclass(frozen=True)
class Written:
    """Where the command left its result.

    `delta`: the file, with its `nbytes`. `store`: the folder, with the `generation` that is on trial in it.
    `report`: the report file. `then`: the words of the command to type next.
    """

    delta: str | None = None
    nbytes: int = 0
    store: str | None = None
    generation: int | None = None
    report: str | None = None
    then: tuple[str, ...] = ()


def conclude(facts: dict, written: Written | None = None, width: int = WIDTH) -> list[str]:
    """At most `LINES` lines of `width` columns about the report `facts` (`Report.to_json`).

    How good it is, whether it was kept, what looks wrong with the images, and with `written` where the result
    is and what to do next. Only a command, which must stay whole, may be longer than `width`.
    """
    normal = "normal" in facts
    good = Item("normal", normal_text(facts)) if normal else Item("accuracy", estimate_text(facts))
    items = [good, _decision(facts)]
    if not facts["guard"]["accepted"]:
        items.reverse()
    items += filter(None, (_suspicious(facts), _skipped(facts), _warnings(facts), _remembered(facts)))
    if written:
        items.append(written_item(written, _computed_in(facts)))
        if written.then:
            items.append(Command("next", written.then))
    return fitted(items, width, LINES, partial(worded, facts))


def class_counts(episode: dict) -> tuple[str, str]:
    """``2 classes`` and ``3 to 5``, the images of each to adapt to."""
    shots, count = sorted(set(episode["shots"])), len(episode["classes"])
    per_class = f"{shots[0]}" if len(shots) == 1 else f"{shots[0]} to {shots[-1]}"
    return f"{count} class{'es' * (count > 1)}", per_class


def normal_text(facts: dict) -> str:
    """Of one class alone: which images are taken for it."""
    normal, n = facts["normal"], facts["episode"]["n_support"]
    limit = f"an image with a score above {normal['threshold']:.2f} is unknown"
    if normal["accepted"] is None:
        return f"{limit}; one image does not say how far others lie from it, give some more"
    known = f"{round(normal['accepted'] * n)} of {n} images are taken for normal, each left out once"
    return f"{known}; {limit}"


def _remembered(facts: dict) -> Item | None:
    """The features that the delta keeps for a later adaptation."""
    nbytes = facts.get("memory", {}).get("replay")
    what = "of features of these images, for 'tinytrain adapt --from'"
    return Item("remembered", f"{format_bytes(nbytes)} {what}") if nbytes else None


def _better_known(facts: dict) -> str:
    """How the result can be measured, if it was only estimated."""
    least = min(facts["episode"]["shots"], default=0)
    if facts["estimate"]["method"] != "cross-validation" or least < ENOUGH:
        return ""
    return f"; --queries {max(2, least // 4)} would measure it"


def estimate_text(facts: dict) -> str:
    """How often answers are right, how sure that is, and how it was found out."""
    estimate = facts["estimate"]
    if estimate["accuracy"] is None:
        return f"unknown: {estimate['why']}"
    interval = f" (95 % interval {estimate['low']:.0%} to {estimate['high']:.0%})"
    if estimate["method"] == "held-out":
        return _held_out_text(facts, estimate, interval)
    images, folds = count_of(estimate["n"], "image"), estimate["folds"]
    way = f"cross-validated on {images} in {folds} folds"
    if folds == estimate["n"]:
        way = f"each of {images} left out once"
    # Judged before training: the study of estimates compares it with what comes after, too.
    when = " before training" if estimate["network"] == "unadapted" else ""
    expected = f"about {figure(facts)} expected on new images if none is left open{interval}"
    if BACKGROUND in facts["episode"].get("classes", ()):
        when += "; beside the background, 'tinytrain check' says how many are"
    return f"{expected}, {way}{when}{_better_known(facts)}"


def figure(facts: dict) -> str:
    """The share that text and page begin with: of held-out images named rightly, or expected of new ones."""
    if facts["estimate"]["method"] == "held-out":
        return f"{facts['accuracy']['named']['right']:.0%}"
    return f"{facts['estimate']['accuracy']:.0%}"


def _held_out_text(facts: dict, estimate: dict, interval: str) -> str:
    """What `predict` will say of such images, and how often it would be right if it left nothing open."""
    accuracy, expected = facts["accuracy"], f"{estimate['accuracy']:.0%}"
    named, right = accuracy["named"], f"{accuracy['after']:.0%}"
    text = f"{figure(facts)} named rightly, {named['open']:.0%} left open, {named['wrong']:.0%} wrong"
    text += f" of {count_of(estimate['n'], 'held-out image')}; {right} right if none is left open"
    # Where labels may be wrong, more answers are right than the labels say.
    text += f"{interval}" if right == expected else f", about {expected} expected on new images{interval}"
    kept, withheld = facts["guard"]["kept"], accuracy["withheld"]
    if kept == "adapted":
        head, as_it_was = (f"{accuracy[when]:.0%}" for when in ("before", "before_cosine"))
        return f"{text}; {head} with a new head alone, {as_it_was} as it was"
    text += ", without training" if kept == "cosine" else ""
    return text if withheld is None else f"{text}, {withheld:.0%} with the training"


def _decision(facts: dict) -> Item:
    guard = facts["guard"]
    reasons = "; ".join(reason["text"] for reason in guard["reasons"])
    if guard["forced"]:
        return Item("forced", f"kept only because of --force, although {reasons}")
    if not guard["accepted"]:
        return Item("refused", f"the old weights stay: {reasons}")
    return Item("kept", kept_text(facts))


def kept_text(facts: dict) -> str:
    """What training brought on held-out images, and how sure that is; or why a head alone is kept."""
    adapted, cosine = (facts["guard"]["measures"].get(f"halves_{name}") for name in ("adapted", "cosine"))
    if adapted is None or not facts["guard"]["accepted"]:
        return _kept_text(facts)
    points = count_of(round(100 * (adapted - cosine)), "point")
    return f"{_kept_text(facts)}; labels hold: cross-validated, training gains {points} over prototypes"


def _kept_text(facts: dict) -> str:
    reasons = facts["guard"]["reasons"]
    if facts["guard"]["kept"] == "head":
        if not reasons:
            return "only the head was fitted, no weight was trained"
        texts = "; ".join(reason["text"] for reason in reasons)
        if reasons[0]["code"] == "no-gain":
            return f"a new head alone: training would not help here, {texts} (--train trains all the same)"
        return f"a new head alone, the training is not kept: {texts}"
    difference = facts["accuracy"]["difference"]
    if difference is None:
        if max(facts["episode"]["shots"]) < 2:
            return "the adaptation; with one image of every class it could not be judged"
        suspicious = facts["guard"]["suspects"] or facts["duplicates"]
        return f"the adaptation; {LOOK if suspicious else 'nothing speaks against it'}"
    low, mid, high = (100 * x for x in difference)
    interval = f"(95 % interval {low:+.0f} to {high:+.0f})"
    points = count_of(round(abs(mid)), "point")
    if mid == 0:
        return "as many right as with a new head alone" + (f" {interval}" if low < high else "")
    words = f"training {'gains' if mid > 0 else 'loses'} {points} {interval}"
    return words if low > 0 or high < 0 else f"{words}; that may be chance"


def _suspicious(facts: dict) -> Item | None:
    suspects = [suspect_text(s) for s in facts["guard"]["suspects"]]
    doubles = sorted(facts["duplicates"], key=lambda d: d["where"] == "one class")
    counts = []
    if suspects:
        n, gain = facts["episode"]["n_support"], facts["accuracy"]["difference"]
        # Labels that training proves right on other images are seldom wrong, however alike classes looked.
        proved = gain is not None and gain[0] > 0 and facts["guard"]["kept"] == "adapted"
        right = facts["guard"]["measures"].get("left_out_before")
        often = how_often_wrong(len(suspects), n, right)
        how = "before training, which tells them apart" if proved else often
        counts.append(f"{len(suspects)} of {n:,} images ({how})")
    if doubles:
        counts.append(count_of(len(doubles), "duplicate"))
    worse = sum(d["where"] != "one class" for d in doubles)
    named = [*map(duplicate_text, doubles)]
    examples = (*named[:worse], *suspects, *named[worse:])
    return Item("suspicious", ", ".join(counts), examples) if counts else None


def how_often_wrong(suspects: int, images: int, right: float | None = None) -> str:
    """How many of the suspects among so many images are really wrong, as a rule.

    `right` is the fraction that is recognised without themselves. Where many of the other images are not,
    classes look alike to the network, and right labels look wrong.
    """
    others = images - suspects
    if right is not None and others > 0 and images * (1 - right) - suspects > ALIKE * others:
        return "as classes look alike to the network, few may be wrong"
    return f"usually {wrong_among(suspects, images) or 'none'} wrong"


def outside_text(memory: dict) -> str:
    """The bytes that no budget limits, each once: keys of 0.2 stand beside those of today."""
    rows = memory["outside"].items()
    words = (f"{key.replace('_', ' ')} {format_bytes(n)}" for key, n in rows if key not in OLD_KEYS.values())
    return ", ".join(words)


def suspect_text(suspect: dict) -> str:
    """``apple/a3.jpg looks like pear``, with the class that was given unless it is a folder of the name."""
    name, given = short(suspect["name"]), suspect["given"]
    if given not in suspect["name"]:
        name += f" ({short(given, 24)})"
    if suspect["reason"] == "mislabelled":
        return f"{name} looks like {short(suspect['looks_like'], 24)}"
    return f"{name} is unlike its class"


def duplicate_text(duplicate: dict) -> str:
    """``apple/a.jpg = pear/b.jpg (several classes)``."""
    where = WHERE.get(duplicate["where"], "")
    return " = ".join(map(short, duplicate["files"])) + where


def _skipped(facts: dict) -> Item | None:
    """Files that were left out, by kind; `NAMED` ones by class folder and name."""
    skipped = facts["skipped"]
    if not skipped:
        return None
    text = f"{count_of(len(skipped), 'file')}, {kinds_text(Counter(row['kind'] for row in skipped))}"
    ordered = sorted(skipped, key=lambda row: row["kind"] not in NAMED)
    named = ("/".join(row["file"].split("/")[-2:]) for row in ordered)
    return Item("skipped", text, tuple(map(short, named)))


def _warnings(facts: dict) -> Item | None:
    """All warnings but those about files that `_skipped` counts."""
    counted = bool(facts["skipped"])
    return warnings_item([w for w in facts["warnings"] if not (counted and w.startswith(SKIPPED))])


def warnings_item(left: list[str]) -> Item | None:
    """`left`, the warnings, as an item; None without any."""
    if len(left) < 2:
        return Item("warning", _plain(left[0])) if left else None
    return Item("warnings", f"{len(left)}", tuple(map(_plain, left)))


def kinds_text(kinds: Counter) -> str:
    """``2 damaged, 9 of another kind``: those of which files are named first, then most first."""
    ordered = sorted(kinds.items(), key=lambda row: (row[0] not in NAMED, -row[1], row[0]))
    return ", ".join(f"{count} {KINDS.get(kind, kind)}" for kind, count in ordered)


def _plain(warning: str) -> str:
    """A warning without the code of its error, which scripts read."""
    prefix = SKIPPED if warning.startswith(SKIPPED) else ""
    code, colon, rest = warning.removeprefix(prefix).partition(": ")
    return short(prefix + rest if colon and CODE.fullmatch(code) else warning, 160)


def _computed_in(facts: dict) -> str:
    """In which numbers the result was found; nothing if there is none, or the report does not say so."""
    precision = facts.get("memory", {}).get("precision")
    if not precision or not facts["guard"]["accepted"]:
        return ""
    return f"; {'trained' if facts['selection'] else 'computed'} in {precision}"


def written_item(written: Written, how: str = "") -> Item:
    """Where the result is, and `how` it was found."""
    places = []
    if written.delta:
        places.append(f"{short(written.delta)} ({format_bytes(written.nbytes)})")
    if written.store:
        places.append(f"{short(written.store)} (generation {written.generation}, on trial until confirmed)")
    if not places:
        places.append("no delta")
    if written.report:
        places.append(f"report {short(written.report)}")
    return Item("written", ", ".join(places) + how)
