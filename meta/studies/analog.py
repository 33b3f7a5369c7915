"""Adapted networks on an array of phase-change memory: accuracy after a second, an hour, a day, a year.

    python -m tinytrain.meta.studies.analog --backbone small --out analog.jsonl
    python -m tinytrain.meta.studies.analog --summary --out results/analog.jsonl

A network is adapted in float32, "plain" or "aware": while it is trained each weight has a normal error, whose
deviation is STRENGTH times the largest weight of its output channel; in what is trained it is drawn anew in
every step. The result is programmed into an array and read later: conductances are off from the start,
drift, and are off again in every reading. "Compensated" scales each layer back by what the array gave at
first. The head is that of the adaptation, or was fitted to what the array gave at first for the same images.
It is exact, as biases are. All forms of an episode see the same draws of the same array.

The model is that of Joshi et al., "Accurate deep neural network inference using computational phase-change
memory", Nature Communications 2020, with the constants of IBM's aihwkit. A pair of devices holds a weight.
One of them conducts, at most 25 microsiemens, which the largest weight of each output channel takes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import parse_bytes
from tinytrain.delta.delta import apply
from tinytrain.meta.studies.study import (
    ADAPTS,
    TASK,
    Rows,
    Study,
    by_pack,
    decoded_episode,
    episodes_option,
    fact,
    mean_of_packs,
    points_above,
    table,
    task_options,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.program.backends.noisy import Noisy, NoisyCopy
from tinytrain.program.backends.registry import BACKENDS
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import Embedder

LARGEST = 25.0  # microsiemens
START = 20.0  # seconds from programming to the first reading
READING = 250e-9  # seconds that one takes
STRENGTH = 0.03  # of the errors in training
TIMES = {"1 second": 1, "1 hour": 3600, "1 day": 86_400, "1 year": 31_536_000}
PACKS = "gtsrb,flowers12,pacs_sketch"
SCALED, THERE = ", compensated", ", head fitted there"
# Column -> how it was trained, and what else; then the pairs of columns whose differences are shown.
COLUMNS = {
    "plain": ("plain", ""),
    "compensated": ("plain", SCALED),
    "and head fitted there": ("plain", SCALED + THERE),
    "aware, compensated": ("aware", SCALED),
    "aware, all three": ("aware", SCALED + THERE),
}
PAIRS = (
    ("compensated", "plain"),
    ("aware, compensated", "compensated"),
    ("and head fitted there", "compensated"),
    ("aware, all three", "and head fitted there"),
)


class Devices:
    """Devices that are programmed to `target` microsiemens: what they got, and their drift exponents."""

    def __init__(self, target: np.ndarray, rng: np.random.Generator):
        share = target / LARGEST
        error = 0.26348 + 1.9650 * share - 1.1731 * share**2
        self.programmed = np.maximum(target + error * rng.standard_normal(target.shape), 0)
        # Of a device that is off the logarithm is bounded, as what follows from it is.
        share = np.maximum(share, 1e-9)
        log = np.log(share)
        mean = np.clip(-0.0155 * log + 0.0244, 0.049, 0.1)
        spread = np.clip(-0.0125 * log - 0.0059, 0.008, 0.045)
        self.exponent = np.abs(mean + spread * rng.standard_normal(target.shape))
        self.flicker = np.minimum(0.0088 / share**0.65, 0.2)

    def read(self, seconds: float, rng: np.random.Generator) -> np.ndarray:
        """Conductances in microsiemens, so long after the first reading."""
        passed = seconds + START
        drifted = self.programmed * (passed / START) ** -self.exponent
        noise = self.flicker * np.sqrt(np.log((passed + READING) / (2 * READING)))
        return np.maximum(drifted * (1 + noise * rng.standard_normal(drifted.shape)), 0)


class Layer:
    """The weights (fan_in, cout) of a layer in pairs of devices, with one scale for each output channel."""

    def __init__(self, weight: np.ndarray, rng: np.random.Generator):
        self.scale = np.maximum(np.abs(weight).max(0), 1e-12) / LARGEST
        self.pair = [Devices(np.maximum(sign * weight / self.scale, 0), rng) for sign in (1, -1)]
        self.first = np.abs(self._read(0, rng)).sum()

    def _read(self, seconds: float, rng: np.random.Generator) -> np.ndarray:
        positive, negative = (devices.read(seconds, rng) for devices in self.pair)
        return positive - negative

    def weights(self, seconds: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Float32 weights as they are read, and compensated: each input is applied once, as at first."""
        read = self._read(seconds, rng)
        found = (read * self.scale).astype(np.float32)
        return found, found * np.float32(self.first / np.abs(read).sum())


class Array:
    """A network in an array; `seed` are its devices."""

    def __init__(self, network: Network, seed: int):
        self.network, self.seed = network, seed
        weights = (network.float_weight(i) for i in range(len(network.layers)))
        self.layers = [Layer(w, rng_for(seed, "programmed", i)) for i, w in enumerate(weights)]

    def after(self, seconds: float) -> tuple[Network, Network]:
        """The network as it is read so many seconds later, and compensated."""
        draws = [rng_for(self.seed, "read", str(seconds), i) for i in range(len(self.layers))]
        read = (layer.weights(seconds, rng) for layer, rng in zip(self.layers, draws, strict=True))
        exact = replace(self.network, scales=(None,) * len(draws))
        plain, scaled = (replace(exact, weights=weights) for weights in zip(*read, strict=True))
        return plain, scaled


class AnewCopy(NoisyCopy):
    """As `NoisyCopy`, with other errors in what is trained after every step."""

    step = 0

    def _errors(self, i: int) -> np.ndarray:
        weights, step = self.base.float_weight(i), self.step if (i, "weight") in self.own else 0
        errors = rng_for(self.backend.seed, "anew", i, step).standard_normal(weights.shape, np.float32)
        return errors * (np.float32(self.backend.strength) * np.abs(weights).max(0))

    def settle(self) -> None:
        trained = [i for i, part in self.own if self._is_off(i, part)]
        for i in trained:
            self.weight(i)[:] -= self._errors(i)
        self.step += 1
        for i in trained:
            self.weight(i)[:] += self._errors(i)


class Anew(Noisy):
    """Errors for training alone: the delta is for float32."""

    kept_as = AnewCopy

    def stored(self, network: Network) -> dict:
        return {}


@contextmanager
def known(backend: Anew) -> Iterator[str]:
    """The name by which a budget asks for `backend`, a row of the registry meanwhile."""
    BACKENDS["anew"] = backend
    try:
        yield backend.name
    finally:
        del BACKENDS["anew"]


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = decoded_episode(network, dataset, args, episode)
    seed, query = args.seed * 100_003 + episode, drawn.query
    found: dict[str, dict] = {}

    def judge(form: str, read: Network, *heads) -> None:
        embeddings = Embedder(read).embed(query)
        for head, more in zip(heads, ("", THERE), strict=False):
            right = head.logits(embeddings).argmax(1) == query.labels
            found[form + more] = {"accuracy": float(right.mean())}

    def adapted(network: Network, precision: str, policy: str):
        budget = Budget(parse_bytes(args.budget), precision=precision)
        return adapt(network, drawn, budget, policy, seed, Device(threads=1), force=True).delta

    with known(Anew(STRENGTH, seed)) as anew:
        for how, precision in (("plain", "float32"), ("aware", anew)):
            delta = adapted(network, precision, args.policy)
            trained = apply(network, delta)
            array = Array(trained, seed)
            there = adapted(array.after(0)[1], "float32", "none_lda").head
            judge(how, trained, delta.head)
            for name, seconds in TIMES.items():
                for read, more in zip(array.after(seconds), ("", SCALED), strict=True):
                    judge(f"{how}, {name}{more}", read, delta.head, there)
    return {"forms": found}


def summary(rows: Rows) -> list[str]:
    """Accuracy by time and form, and what each measure brings on top of the others, paired by episode."""
    lines = []
    for pack, mine in by_pack(rows):
        exact = [f"{_accuracy(mine, how)} exact" for how in ("plain", "aware")]
        body = []
        for name in TIMES:
            forms = {column: f"{how}, {name}{more}" for column, (how, more) in COLUMNS.items()}
            gains = [points_above(mine, forms[a], forms[b]).text(2, signed=True) for a, b in PAIRS]
            body.append([name, *(_accuracy(mine, form) for form in forms.values()), *gains])
        header = (f"{pack}, {len(mine)} episodes", *COLUMNS, *(f"{a} - {b}" for a, b in PAIRS))
        lines += [f"{pack}: {exact[0]}, aware {exact[1]}", "", *table(header, body), ""]
    return lines[:-1]


def _accuracy(rows: Rows, form: str) -> str:
    return f"{100 * mean_of_packs(rows, fact(form, 'accuracy')):.1f}"


OPTIONS = (*ADAPTS, *task_options(), episodes_option(12))
SETTINGS = ("policy", "budget", *TASK)
main = Study("analog", __doc__, "small", PACKS, run_job, summary, OPTIONS, SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
