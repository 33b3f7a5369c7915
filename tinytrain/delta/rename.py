"""Another name for a class of a delta; no value of it changes."""

import unicodedata
from dataclasses import replace

from tinytrain.base.class_names import wrong_class_names
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta


def rename(delta: Delta, old: str, new: str) -> Delta:
    """`delta` whose class `old` is called `new`, also in its report; names of image files stay.

    Raises InputError ``unknown-class``, or ``class-names`` for a name that `wrong_class_names` refuses.
    """
    label = delta.label_of(old)
    names = list(delta.class_names)
    old, names[label] = names[label], new
    if wrong := wrong_class_names(names):
        raise InputError("class-names", f"{wrong}; give the class a name of its own")
    names[label] = unicodedata.normalize("NFC", new)
    return replace(delta, class_names=tuple(names), report=_renamed(delta.report, old, names[label]))


def _renamed(report: dict, old: str, new: str) -> dict:
    """A copy of `report` that knows the class by its new name."""

    def named(name):
        return new if name == old else name

    found = dict(report)
    if classes := report.get("episode", {}).get("classes"):
        found["episode"] = {**report["episode"], "classes": [named(name) for name in classes]}
    if guard := report.get("guard"):
        turned = [
            {key: named(value) if key in ("given", "looks_like") else value for key, value in row.items()}
            for row in guard["suspects"]
        ]
        found["guard"] = {**guard, "suspects": turned}
    if "extended" in report:
        found["extended"] = [{named(k): count for k, count in row.items()} for row in report["extended"]]
    if watched := report.get("watched"):
        found["watched"] = watched | {
            key: {named(k): value for k, value in watched[key].items()}
            for key in ("corrections", "labels") if key in watched
        }  # fmt: skip
    return found
