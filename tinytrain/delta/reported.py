"""What the report of a delta says that is worked with: it is checked where the delta is read."""

from tinytrain.base.class_names import MAX_CLASSES
from tinytrain.base.schema import WrongError, any_text, count, flag, holding, list_of, named, parsed, text

MANY = 10**6  # items of a list, whose bytes are limited


def check_report(report: dict, source: str) -> None:
    """Raise InputError ``file-damaged`` if a part of `report` is not what those who work with it take."""
    parsed(holding(REPORTED, REPORTED), report, source, "file-damaged")


def _episode(value, where):
    fields = {
        "kind": text,
        "shots": list_of(count(0), most=MAX_CLASSES),
        "classes": list_of(any_text, most=MAX_CLASSES),
    }
    found = holding(fields, fields)(value, where)
    if "classes" in found and len(found["classes"]) != len(found.get("shots", ())):
        raise WrongError(f"{where}.classes", value["classes"], "as many names as there are numbers in shots")
    return found


def _by_class(what):
    """A check of a mapping of names of classes."""
    return named(what, any_text)


_TEXTS = list_of(any_text, most=MANY)
_WATCHED = {
    "corrections": _by_class(count(0)),
    "labels": _by_class(_TEXTS),
    "marks": _by_class(any_text),
    "right": list_of(flag, most=MANY),
}
# What of a report is worked with, if it is there.
REPORTED = {
    "episode": _episode,
    "forgotten": holding({"classes": count(0), "traces": list_of(text)}),
    "guard": holding(
        {
            "suspects": list_of(holding({"given": any_text, "looks_like": any_text}), most=MANY),
            "reasons": list_of(holding({"code": any_text, "text": any_text}), most=MANY),
        }
    ),
    "extended": list_of(_by_class(count(0)), most=MANY),
    "watched": holding(_WATCHED, _WATCHED),
    "warnings": _TEXTS,
}
