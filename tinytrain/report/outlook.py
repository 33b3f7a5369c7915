"""What `tinytrain.pipeline.check` found, in words: whether images are enough, and what to photograph next."""

from tinytrain.backbones.catalogue import JOINS, tier_of
from tinytrain.base.class_names import BACKGROUND
from tinytrain.report.conclusion import duplicate_text, how_often_wrong, suspect_text
from tinytrain.report.layout import Item, count_of, fitted, short

LINES, WIDTH = 12, 100  # of the text
ALONE = "unknown: no class has a second image, by which the first could be judged"
HARDLY = 0.02  # a gain of accuracy below this is hardly worth taking photographs


def render(found, width: int = WIDTH, verbose: bool = False) -> str:
    """What `check` found as text: an item for each question, in twelve lines unless `verbose`.

    Other networks take two lines more, and so does a background.
    """
    judged = found.left_out.judged
    items = [
        Item("images", _images(found)),
        Item("accuracy", _accuracy(found.estimate)),
        _confused(found.confused) if judged else Item("confused", ALONE),
        _suspects(found.suspects, sum(found.shots), found.estimate.accuracy)
        if judged
        else Item("suspects", ALONE),
        _duplicates(found.duplicates, found.left_out.repeated),
        Item("enough", _gain(found.gain)),
        *([Item("background", _background(found))] if BACKGROUND in found.classes else []),
        Item("next", _next_class(found)),
        *([Item("networks", _networks(found.networks, found.auto))] if found.networks else []),
    ]
    more = 2 * bool(found.networks) + 2 * (BACKGROUND in found.classes)
    return "\n".join(fitted(items, width, None if verbose else LINES + more))


def _images(found) -> str:
    least, most = min(found.shots), max(found.shots)
    each = f"{least}" if least == most else f"{least} to {most}"
    return f"{sum(found.shots)} of {len(found.classes)} classes, {each} of each"


def _accuracy(e) -> str:
    if e.accuracy is None:
        return f"unknown: {e.why}"
    how = (
        f"{e.folds} adaptations, each judged by the images that it did not see"
        if e.network == "adapted"
        else f"each of {e.n} images judged by the others, without training"
    )
    return (
        f"about {e.accuracy:.0%} of new images right (95 % interval {e.low:.0%} to {e.high:.0%}), from {how}"
    )


def _confused(confused):
    if confused is None:
        return Item("confused", "no two classes")
    text = f"{' and '.join(short(name) for name in confused.classes)} most often"
    return Item("confused", text, tuple(map(short, confused.images)))


def _suspects(suspects, images: int, right: float | None):
    often = how_often_wrong(len(suspects), images, right)
    text = f"{count_of(len(suspects), 'image')} ({often})" if suspects else "none"
    return Item("suspects", text, tuple(suspect_text(s.to_json()) for s in suspects))


def _duplicates(duplicates, repeated: float):
    text = f"{len(duplicates)}" if duplicates else "none"
    if round(100 * repeated) > 0:
        text += f"; {repeated:.0%} of the images are recognised only because others nearly repeat them"
    return Item("duplicates", text, tuple(map(duplicate_text, duplicates)))


def _gain(gain) -> str:
    if gain is None:
        return "unknown: a class has too few images to tell; add more"
    points = (100 * x for x in (gain.gain, gain.low, gain.high))
    mid, low, high = (f"{x:+.0f}" for x in points)
    more = f"{gain.images} more images of every class would bring {mid} points of accuracy"
    return f"{_enough(gain)}: {more} (95 % interval {low} to {high})"


def _background(found) -> str:
    """How often its like is taken for a class now, and whether more of it would help."""
    if (beside := found.background) is None:
        few = count_of(found.counts[BACKGROUND], "image")
        return (
            f"unknown: too few images of a class, or of it, which has {few}; beside few of it, few are named"
        )
    often = f"{beside.taken:.0%} of images like these {beside.images} are taken for a class now"
    kept = (
        f"{beside.kept:.0%} of the classes' images are named, {beside.half:.0%} with half of the background"
    )
    more = "hardly helps" if beside.kept - beside.half < HARDLY else "helps"
    return f"{often} (95 % interval {beside.low:.0%} to {beside.high:.0%}); {kept}: more of it {more}"


def _enough(gain) -> str:
    return "no" if gain.low > 0 else "yes" if gain.gain < HARDLY else "perhaps"


def _networks(rows, auto: str) -> str:
    """What `--backbone auto` would take, and the best of the others."""
    wanted = set(auto.split(JOINS))
    first, *others = sorted(rows, key=lambda row: (set(row.networks) != wanted, -row.accuracy, row.times))
    if first is rows[0]:
        text = f"--backbone auto would take {_called(first)} as well"
    else:
        text = f"--backbone auto would take {_called(first)}: {_above(first)}"
    best = next(row for row in others if row is not rows[0])
    return f"{text}; {_called(best)}: {_above(best)}"


def _above(row) -> str:
    mid, low, high = (f"{100 * x:+.0f}" for x in (row.gain, *row.interval))
    return f"{mid} points (95 % interval {low} to {high}) in {row.times:.1f} times the time"


def _called(row) -> str:
    """The tiers of the networks, or their names: what ``--backbone`` takes."""
    return JOINS.join(short(tier_of(name)) for name in row.networks)


def _next_class(found) -> str:
    wanted = found.next_class
    name = short(wanted.name)
    if wanted.images == 1:
        return f"photograph {name}: it has a single image"
    take = "if you take more, photograph" if found.gain and _enough(found.gain) == "yes" else "photograph"
    what = f"{take} {name}: its {wanted.images} images are told from other classes least clearly"
    if not wanted.errors:
        return what
    verb = "looks" if wanted.errors == 1 else "look"
    return f"{what}, {wanted.errors} {verb} like another one, mostly {short(wanted.like)}"
