"""Workers: the frozen part of the network for one image, and what comes behind it for a few."""

from collections.abc import Sequence

import numpy as np

from tinytrain.episode.augment import Augmentation
from tinytrain.runtime.bind import Binder, run


class Prefix:
    """The frozen part for one image: decoded image, augmented copy, features.

    `unit` names its image buffers, `workspace` the bytes it runs in.
    """

    def __init__(self, bind: Binder, unit: str, workspace: str):
        self.image = bind.array(f"image ({unit})")
        self.augmented = bind.array(f"augmented image ({unit})")
        self.kernels, self.calls, self.output = bind.kernels, (), self.augmented
        program = bind.program
        if "prefix" in program.segments:
            views = {program.externals["input"]: self.augmented}
            self.calls, ((self.output,),) = bind.segment(program.segments["prefix"], workspace, views)

    def features(self, augmentation: Augmentation | None) -> np.ndarray:
        """Features of the decoded image, as it is or augmented; valid until the workspace is used again."""
        if augmentation is None:
            np.copyto(self.augmented, self.image)
        else:
            self.kernels.augment(self.augmented, self.image, *augmentation.arguments())
        run(self.calls)
        return self.output


class Lane:
    """One worker behind the cut in one stage: features, and some segments bound to the workspace of `place`.

    Where features are not all cached, it has the frozen part in the same workspace.
    """

    def __init__(self, bind: Binder, segments: Sequence[str], unit: str, place: str):
        program, external = bind.program, bind.program.externals
        self.features, workspace = bind.array(f"features ({place})"), f"workspace ({place})"
        views = {external["features"]: self.features}
        if any(name.startswith("backward") for name in segments):
            self.grad_embedding = bind.array(f"embedding gradient ({unit})")
            views[external["grad embedding"]] = self.grad_embedding
            views[external["gradients"]] = bind.array(f"gradients ({unit})")
        self.segments = {name: bind.segment(program.segments[name], workspace, views) for name in segments}
        own = f"image ({unit})" in program.buffers
        self.prefix = Prefix(bind, unit, workspace) if own else None

    def embed(self, augmentation: Augmentation | None = None) -> np.ndarray:
        """Embedding (d,) of the image in `prefix`, as it is or augmented; valid until the next call."""
        np.copyto(self.features[0], self.prefix.features(augmentation).reshape(self.features[0].shape))
        calls, (embedding,) = self.segments["embed 1"]
        run(calls)
        return embedding[0]


def query_lane(bind: Binder) -> Lane:
    """The worker that looks at queries, one image at a time."""
    return Lane(bind, ["embed 1"], "queries", "queries")
