"""A class less in a finished delta, without any image.

What is exact, that is, as if the class had never been seen:

* The rows of the class in the head are gone. With `HeadMethod.separate_classes`
  the rest is, bit for bit, the head of the other classes.
* A covariance of all classes together still holds the scatter of the forgotten one.
* Trained weights have seen the class, if it was among those of the adaptation.

`traces` names what is left. The temperature, which scales the confidence, stays as it was calibrated.
"""

from dataclasses import replace

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta

HEAD, WEIGHTS = "head", "weights"  # where a forgotten class may leave traces


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
        class_names=tuple(n for k, n in enumerate(delta.class_names) if k != label),
        report=after_forgetting(_without(delta.report, name), traces(delta, name)),
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
    in_head = not (method.separate_classes or method.keep_classes)
    found = {HEAD: in_head, WEIGHTS: delta.slices and trained}
    return tuple(place for place, is_left in found.items() if is_left)


def _without(report: dict, name: str) -> dict:
    """A copy of `report` that does not name the class; its figures stay those of the adaptation."""
    found = dict(report)
    if classes := report.get("episode", {}).get("classes"):
        kept = [k for k, other in enumerate(classes) if other != name]
        lists = {key: [report["episode"][key][k] for k in kept] for key in ("classes", "shots")}
        found["episode"] = {**report["episode"], **lists}
    if guard := report.get("guard"):
        suspects = [row for row in guard["suspects"] if name not in (row["given"], row["looks_like"])]
        reasons = [
            {**row, "text": row["code"] if name in row["text"] else row["text"]} for row in guard["reasons"]
        ]
        found["guard"] = {**guard, "suspects": suspects, "reasons": reasons}
    if "extended" in report:
        rows = ({k: count for k, count in row.items() if k != name} for row in report["extended"])
        found["extended"] = [row for row in rows if row]
    if watched := report.get("watched"):
        found["watched"] = watched | {
            key: {k: value for k, value in watched[key].items() if k != name}
            for key in ("corrections", "labels") if key in watched
        }  # fmt: skip
    if "warnings" in report:  # they name files in the folders of classes
        found["warnings"] = [line for line in report["warnings"] if name not in line]
    return found


def forgot_more(delta: Delta, before: Delta | None) -> bool:
    """Whether a class was forgotten in `delta` that `before`, from which it was made, may still know.

    What cannot be read (None) may know any class.
    """
    now, earlier = (d.report.get("forgotten", {"classes": 0})["classes"] if d else 0 for d in (delta, before))
    return now > earlier
