"""One training step on toy networks, by the engine and by the float64 oracle."""

import numpy as np
from oracle import Oracle, gradients
from toynets import gradient_of, images, items, selected, trainer

from tinytrain import kernels
from tinytrain.episode.augment import Augmentation

SLACK, RELATIVE = 2e-7, 1e-5  # 1.1e-7 beside was seen
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0])
IMAGES = images(len(LABELS))


def augmentation(view, i):
    return None if view == 0 else Augmentation(view % 2 == 1, view, -(i % 3), 5.0 * view, 0.8, 1.2)


def augmented(view):
    """All images in one view, by the kernels written in plain numpy."""
    if view == 0:
        return IMAGES
    out, table = np.empty_like(IMAGES), kernels.load("numpy")
    for i, image in enumerate(IMAGES):
        table.augment(out[i], image, *augmentation(view, i).arguments())
    return out


def step_gradients(network, plan, **how):
    """(trainer, loss) after the gradients of one step on clean support and one view of it."""
    made = trainer(network, plan, IMAGES, LABELS, augmentation=augmentation, **how)
    made.run("start")
    made.run("cache")
    loss = made.compute_gradients(items(len(LABELS)), items(len(LABELS), 1))
    made.close()
    return made, loss


def exact_gradients(network, step="both", chosen=None):
    return gradients(Oracle(network), IMAGES, LABELS, augmented(1), LABELS, step, chosen)


def assert_equals_oracle(made, want, tolerance=RELATIVE):
    for slot in made.slots:
        exact = {"weight": want.weights, "bias": want.biases}[slot.part][slot.layer]
        got = gradient_of(made, slot.layer, slot.part)
        exact = selected(exact, slot)
        # The gradient of the last bias is a small difference of large numbers.
        assert np.linalg.norm(got - exact) < tolerance * np.linalg.norm(exact) + SLACK


def bits(made):
    return made.gradients.tobytes()
