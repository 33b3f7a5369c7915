"""Bytes of one training step in four modes of the compiler, for SparseUpdate's published configurations.

    python -m tinytrain.meta.studies.step_modes --backbone mcunet-5fps
    python -m tinytrain.meta.studies.step_modes --backbone mcunet-5fps --precision float32

"all gradients": every weight and bias is trained, all gradients are kept, updates come at the end. "pruned":
only the configuration is trained, and nothing else has a gradient. "reordered": each layer is updated as soon
as its gradients are there, and the next gradients lie in their bytes. "in place": gradients of weights are
not kept at all: as soon as a row of one is there (in float32 some rows), it is taken from its weights, as in
the published C. Every program is compiled, placed and run: one image, SGD, a loss in the prototypes of five
classes. Bytes are those of the arena: activations, gradients, and what is trained; other weights are
constants. "apart" is how far gradients and new values of what the configuration trains differ between the
modes, relative to them, in the array where that is most; "in place" has new values alone. With --rounding
carried or stochastic, a few codes of "all gradients" may be apart: what is drawn for a weight depends on what
else is trained.
"""

import sys

import numpy as np

from tinytrain import kernels
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import at_least, guarded
from tinytrain.datasets import open_dataset
from tinytrain.meta.studies.study import study_parser
from tinytrain.network.network import Network
from tinytrain.plan.costs import n_trained
from tinytrain.plan.recipe import PRECISIONS, ROUNDINGS, Recipe
from tinytrain.policies.sparse_update import KILOBYTES, published, updates_of
from tinytrain.program.program import Program
from tinytrain.program.step import FEATURES, IMAGE, WORKSPACE, compile_step, everything, gradient_name
from tinytrain.program.trained_arrays import Slot, columns_of, slots
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, run
from tinytrain.runtime.int8_copy import working_copy

MODES = ALL, PRUNED, REORDERED, IN_PLACE = "all gradients", "pruned", "reordered", "in place"
RATIOS = "all / pruned", "pruned / reordered"
HEADINGS = ("configuration, kB", "parameters", *MODES, *RATIOS, "apart")
WAY, RATE = 5, 0.01
GRADIENT_OF = {"sgd": 1, "sgd_step": 0}  # place of the gradient among the arguments of an update
Arrays = dict[tuple[int, str], np.ndarray]  # of trained layers, by layer and part


def recipe_of(updates, precision: str, rounding: str = "truncated") -> Recipe:
    """One step of SGD for `updates`; the published C truncates new weights."""
    rates = ((RATE, RATE),) * len(updates)
    return Recipe("step", tuple(updates), rates, "sgd", head="cosine").in_precision(precision, rounding)


def programs(network: Network, recipe: Recipe) -> dict[str, Program]:
    """The program of one step of `recipe` in each mode."""
    recipes = {mode: everything(network, recipe) if mode == ALL else recipe for mode in MODES}
    early, at_once = (REORDERED, IN_PLACE), (IN_PLACE,)
    return {m: compile_step(network, recipes[m], WAY, m in early, m in at_once) for m in MODES}


def slots_of(program: Program) -> tuple[Slot, ...]:
    return slots(program.network, program.recipe)


class Bound:
    """A program of a step in memory of its own; `prototypes` (classes, d) float32 and the label stay."""

    def __init__(self, program: Program, prototypes: np.ndarray, label: int = 0):
        self.program, self.image = program, None
        self.trained = slots_of(program)
        self.working = working_copy(program)
        self.bind = Binder(
            program, Arena(program.nbytes), self.working, kernels.load(), columns_of(self.trained)
        )
        names = program.externals.items()
        self.views = {b: self.bind.array(n) for n, b in names if n in program.buffers}
        if IMAGE in program.buffers:
            self.views[program.externals["input"]] = self.bind.array(IMAGE)
        self.bind.array("prototypes")[...] = prototypes
        self.bind.array("label")[...] = label
        self.own = {
            "assign": np.copyto,
            "clear": lambda y: y.fill(0),
            "gather_block": lambda y, x, rows, columns: np.copyto(y, x[np.ix_(rows, columns)]),
            "show_rows": lambda y, first: np.copyto(y, self.image[first : first + len(y)]),
        }
        for call in program.stage("start").body:
            kernel = self.own.get(call.kernel) or getattr(self.bind.kernels, call.kernel)
            kernel(*map(self.bind.value, call.args))

    def step(self, image: np.ndarray) -> tuple[Arrays, Arrays]:
        """Gradients (inputs, outputs) or (outputs,), and new values of whole layers, after one step.

        Gradients that are never kept are missing. `image` is (height, width, channels) uint8.
        """
        self.image, program = image, self.program
        if IMAGE in program.buffers:
            self.bind.array(IMAGE)[...] = image
        if ("prefix", 1) in program.segments:
            calls, (frozen,) = self._calls("prefix")
            run(calls)
        else:
            frozen = image
        self.bind.array(FEATURES)[...] = frozen
        found: dict[str, np.ndarray] = {}
        segment = program.segments["step", 1]
        for call, (kernel, args) in zip(segment.calls, self._calls("step")[0], strict=True):
            if (at := GRADIENT_OF.get(call.kernel)) is not None and call.part != "grad_weight":
                found[call.args[at].buffer.name] = args[at].copy()
            kernel(*args)
        names = {(s.layer, s.part): (gradient_name(program.network, s), s.shape) for s in self.trained}
        gradients = {key: found[name].reshape(shape) for key, (name, shape) in names.items() if name in found}
        return gradients, {key: np.array(self.working.part(*key), np.float32) for key in names}

    def _calls(self, kind: str):
        workspace = self.program.buffers[WORKSPACE]
        return self.bind.calls(self.program.segments[kind, 1], workspace, self.views, self.own)


def apart(network: Network, recipe: Recipe, a: tuple[Arrays, Arrays], b: tuple[Arrays, Arrays]) -> float:
    """The largest relative difference of two steps in an array that `recipe` trains: gradients, then values.

    The first step may train whole layers; the second may have no gradients of weights.
    """
    found = [0.0]
    for slot in slots(network, recipe):
        key = slot.layer, slot.part
        for first, second in zip(a, b, strict=True):
            if key not in second:
                continue
            wanted = second[key]
            got = first[key] if first[key].shape == wanted.shape else _some(first[key], slot)
            if wanted.shape != slot.shape and slot.part == "weight":  # a whole layer
                got, wanted = _some(got, slot), _some(wanted, slot)
            found.append(float(np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-30)))
    return max(found)


def _some(whole: np.ndarray, slot: Slot) -> np.ndarray:
    """What `slot` trains of the weights of a layer."""
    return whole[np.ix_(range(slot.shape[0]) if slot.inputs is None else slot.inputs, slot.channels)]


def differences(network: Network, recipe: Recipe, made: dict[str, Program], image: np.ndarray) -> float:
    """How far the modes are apart after a step of `image`."""
    prototypes = np.random.default_rng(7).random((WAY, network.embedding_size), np.float32)
    steps = {mode: Bound(program, prototypes).step(image) for mode, program in made.items()}
    pairs = (ALL, REORDERED), (PRUNED, REORDERED), (REORDERED, IN_PLACE)
    return max(apart(network, recipe, steps[a], steps[b]) for a, b in pairs)


def parser():
    p = study_parser("step_modes", __doc__.split("\n")[0], "mcunet-5fps", "gtsrb")
    p.add_argument("--precision", choices=PRECISIONS, default="int8")
    p.add_argument("--rounding", choices=ROUNDINGS, default="truncated", help="of int8 weights")
    p.add_argument("--most", type=at_least(1), default=5, help="configurations, smallest first; default: all")
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run_command, arguments)


def run_command(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    network = load_backbone(args.backbone)
    configurations = list(zip(KILOBYTES, published(network), strict=True))[: args.most]
    dataset = open_dataset(args.packs, args.data)
    image = dataset.images([[0]]).image(0, network.input.shape)
    print(f"{network.name}, {args.precision}, bytes\n\n| {' | '.join(HEADINGS)} |")
    print("|" + "---|" * len(HEADINGS))
    for size, configuration in configurations:
        recipe = recipe_of(updates_of(network, configuration), args.precision, args.rounding)
        made = programs(network, recipe)
        sizes = [made[mode].nbytes for mode in MODES]
        ratios = [sizes[0] / sizes[1], sizes[1] / sizes[2]]
        cells = [str(size), f"{n_trained(network, recipe.updates):,}", *(f"{n:,}" for n in sizes)]
        cells += [*(f"{r:.2f}" for r in ratios), f"{differences(network, recipe, made, image):.1g}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
