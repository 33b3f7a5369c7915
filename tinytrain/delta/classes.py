"""Another name for a class of a finished delta, or a class less, without any image.

What `forget` does exactly, that is, as if the class had never been seen:

* The rows of the class in the head are gone. With `HeadMethod.separate_classes`
  the rest is, bit for bit, the head of the other classes.
* A covariance of all classes together still holds the scatter of the forgotten one.
* Trained weights have seen the class, if it was among those of the adaptation.

`traces` names what is left. The temperature, which scales the confidence, stays as it was calibrated.
"""

import unicodedata
from dataclasses import replace

from tinytrain.base.class_names import BACKGROUND, wrong_class_names
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta

HEAD, WEIGHTS = "head", "weights"  # where a forgotten class may leave traces


def rename(delta: Delta, old: str, new: str) -> Delta:
    """`delta` whose class `old` is called `new`, also in its report; names of image files stay.

    Raises InputError ``unknown-class``, or ``class-names`` for a name that `wrong_class_names` refuses, and
    for the background, which is what it is by its name.
    """
    label = delta.label_of(old)
    if BACKGROUND in (old, new):
        raise InputError("class-names", f"{BACKGROUND!r} is no answer, and no class becomes it; adapt again")
    names = list(delta.class_names)
    old, names[label] = names[label], new
    if wrong := wrong_class_names(names):
        raise InputError("class-names", f"{wrong}; give the class a name of its own")
    names[label] = unicodedata.normalize("NFC", new)
    return replace(delta, class_names=tuple(names), report=_named(delta.report, old, names[label]))


def forget(delta: Delta, name: str) -> Delta:
    """`delta` without class `name`, also in its report, where "forgotten" says what still carries traces.

    Raises InputError ``unknown-class``, or ``too-few-classes`` if fewer would remain than its head needs.
    """
    label, way, least = delta.label_of(name), len(delta.class_names), delta.head.method.least_classes
    if way <= least:
        have = (
            f"{way} class{'es' * (way > 1)}, and at least {least} must remain{' to tell apart' * (least > 1)}"
        )
        raise InputError("too-few-classes", f"the delta has {have}; add a class before you forget one")
    name = delta.class_names[label]
    return replace(
        delta,
        head=delta.head.without_class(label, way),
        replay=delta.replay and delta.replay.without(label),
        members=tuple(
            replace(part, replay=part.replay and part.replay.without(label)) for part in delta.members
        ),
        class_names=tuple(n for k, n in enumerate(delta.class_names) if k != label),
        report=after_forgetting(_named(delta.report, name), traces(delta, name)),
    )


def after_forgetting(report: dict, left: tuple[str, ...] = ()) -> dict:
    """`report` that says that one class more was forgotten, and what is `left` of it."""
    before = report.get("forgotten", {"classes": 0, "traces": []})
    places = [place for place in (HEAD, WEIGHTS) if place in before["traces"] or place in left]
    return {**report, "forgotten": {"classes": before["classes"] + 1, "traces": places}}


def traces(delta: Delta, name: str) -> tuple[str, ...]:
    """What would still depend on images of class `name` after `forget`: of HEAD and WEIGHTS those that do."""
    # A class that only the head learnt later has changed no weight.
    trained = name in delta.report.get("episode", {}).get("classes", delta.class_names)
    method = delta.head.method
    in_head = not method.separate_classes
    found = {HEAD: in_head, WEIGHTS: delta.is_trained and trained}
    return tuple(place for place, is_left in found.items() if is_left)


def _named(report: dict, name: str, new: str | None = None) -> dict:
    """A copy of `report` that calls class `name` `new`, or does not name it; its figures stay."""

    def named(other):
        return new if other == name else other

    def keyed(counts: dict) -> dict:
        return {named(key): value for key, value in counts.items() if named(key)}

    found = dict(report)
    if classes := report.get("episode", {}).get("classes"):
        kept = [k for k, other in enumerate(classes) if named(other)]
        lists = {key: [report["episode"][key][k] for k in kept] for key in ("classes", "shots")}
        found["episode"] = report["episode"] | lists | {"classes": [named(classes[k]) for k in kept]}
    if guard := report.get("guard"):
        suspects = [
            row | {key: named(row[key]) for key in ("given", "looks_like")}
            for row in guard["suspects"]
            if new or name not in (row["given"], row["looks_like"])
        ]
        found["guard"] = guard | {"suspects": suspects}
        if not new:
            reasons = [
                row | {"text": row["code"]} if name in row["text"] else row for row in guard["reasons"]
            ]
            found["guard"]["reasons"] = reasons
    if "extended" in report:
        found["extended"] = [row for row in map(keyed, report["extended"]) if row]
    if watched := report.get("watched"):
        keys = (key for key in ("corrections", "labels") if key in watched)
        found["watched"] = watched | {key: keyed(watched[key]) for key in keys}
    if "warnings" in report and not new:  # they name files in the folders of classes
        found["warnings"] = [line for line in report["warnings"] if name not in line]
    return found


def forgot_more(delta: Delta, before: Delta | None) -> bool:
    """Whether a class was forgotten in `delta` that `before`, from which it was made, may still know.

    What cannot be read (None) may know any class.
    """
    now, earlier = (d.report.get("forgotten", {"classes": 0})["classes"] if d else 0 for d in (delta, before))
    return now > earlier
