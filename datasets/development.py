"""Domains for settling the constants of methods, and others for confirming what was settled.

The two lists share no domain and no image: photographs of one come from other packs than those of the other,
and drawn ones have other renderers. None of them has images of the kind of the packs of the benchmarks.
"""

import os
from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset, subset
from tinytrain.datasets.generated.drawings import DRAWINGS
from tinytrain.datasets.generated.signals import SIGNALS
from tinytrain.datasets.generated.specimens import SPECIMENS
from tinytrain.datasets.packs import load_pack
from tinytrain.datasets.styles import SIDE, STYLES
from tinytrain.episode.decode import fit

SETTLE = (
    "photos-edges", "photos-poster", "photos-near", "photos-negative", "fsdd_logmel", "leaves", "toys",
    "drawn-letters", "drawn-circuits", "drawn-flags", "signal-sounds", "signal-traces",
)  # fmt: skip
CONFIRM = (
    "photos-drawn", "photos-painted", "photos-night", "photos-thermal", "photos-printed", "photos-defocused",
    "pacs_photo", "solids", "drawn-panels", "drawn-molecules", "drawn-cells", "drawn-fractals",
    "signal-motion",
)  # fmt: skip
LISTS = {"settle": SETTLE, "confirm": CONFIRM}

# The pack of a style. Styles of one pack take turns at its classes, so that no two have the same images.
PHOTOS = {
    f"photos-{style}": pack
    for pack, styles in {
        "caltech101": ("edges", "poster", "near", "negative"),
        "tiny_imagenet200": ("drawn", "painted", "night", "thermal", "printed", "defocused"),
    }.items()
    for style in styles
}
DRAWN = DRAWINGS | SIGNALS | SPECIMENS
DEVELOPMENT = (*PHOTOS, *DRAWN)  # the names that `open_development` opens

# Classes of the benchmarks, and people: the first word of a name.
BARRED = {
    "Faces", "Faces_easy", "dalmatian", "electric_guitar", "elephant", "lotus", "stop_sign", "sunflower",
    "water_lilly", "n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799", "n02504458",
}  # fmt: skip


def open_development(name: str, data_dir: str | os.PathLike | None = None) -> Dataset:
    """The domain of a name in DEVELOPMENT. Raises InputError ``pack-missing`` if it needs a pack."""
    if name not in PHOTOS:
        return DRAWN[name]()
    pack = load_pack(PHOTOS[name], data_dir)
    siblings = [other for other, source in PHOTOS.items() if source == PHOTOS[name]]
    allowed = [c for c, text in enumerate(pack.class_names) if text.split(" ")[0] not in BARRED]
    chosen = subset(pack, allowed[siblings.index(name) :: len(siblings)], name)
    style = STYLES[name.removeprefix("photos-")]

    def read(i: int, size) -> np.ndarray:
        return fit(style(chosen.read(i, SIDE), rng_for(0, name, i)), size)

    return replace(chosen, read=read)
