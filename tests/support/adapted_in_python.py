"""Adapts and says what C traces, by the names that it uses."""

from dataclasses import replace

import numpy as np
import pytest

from tinytrain.codegen.device import for_one_core
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.guard.guard import Evidence, judge
from tinytrain.heads.leave_one_out import CHANCE, margins
from tinytrain.plan.budget import TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.runtime import host_calls
from tinytrain.runtime.device import Device
from tinytrain.runtime.trainer import Trainer


def adapted(network, plan, support, query, seed: int, patch: pytest.MonkeyPatch) -> dict:
    """`support` and `query` are images (n, height, width, channels), class by class."""
    ways, sides = plan.task.n_way, []
    for images in (support, query):
        labels = np.repeat(np.arange(ways, dtype=np.int32), len(images) // ways)
        names = tuple(map(str, range(len(images))))
        read = lambda i, size, images=images: images[i]  # noqa: E731
        sides.append(Images(labels, names, read, network.input.kind))
    episode = Episode(*sides, tuple(f"class {k}" for k in range(ways)))
    task = TaskShape.of(episode)
    quotas = plan.recipe.options.quotas
    plan = for_one_core(replace(plan, task=task), network, quotas)
    found = {}
    measured = Trainer.embed

    def embed(self, items, out, units="embed"):
        measured(self, items, out, units)
        if items[0][0] == 0:
            found.setdefault("embeddings", []).append(out.copy())

    patch.setattr(Trainer, "embed", embed)
    answer = host_calls.answer

    def judged(head, embedding):
        if head.is_finite():
            verdict, largest = head.verdict(embedding[0]), float(np.abs(head.logits(embedding)).max())
            said = verdict.label, verdict.confidence, verdict.state, largest / head.temperature
            found["verdicts"].setdefault(id(head), []).append(said)
        return answer(head, embedding)

    patch.setattr(host_calls, "answer", judged)
    planner = Planner(network, TaskShape.of(episode), plan)
    with Device(threads=1).open(network, episode, seed) as run:
        assert run.kernels.backend == "numba", run.kernels.backend
        scores = run.measure_fisher(planner.probe())
        chosen = planner.plan(scores)
        for layer, fisher in (scores.fisher if scores else {}).items():
            found[f"fisher {layer}"] = fisher.copy()
        for update in chosen.recipe.updates:
            if update.channels:
                found[f"channels {update.layer}"] = np.array(sorted(update.channels), np.int32)
        run.load(planner.program(chosen))
        run.cache_features()
        run.fit_heads()
        found["weights before"] = run._before[0].weights.copy()
        found["losses"] = np.array(run.train(), np.float32)
        delta = run.result()
        found["weights after"] = delta.head.weights.copy()
        found["offsets after"] = delta.head.offsets.copy()
        found["head"] = {name: array.tobytes() for name, array in delta.head.tensors().items()}
        ordered = sorted(delta.slices, key=lambda s: (-s.values.itemsize, f"{s.layer}.{s.part}"))
        found["trained"] = [s.values.tobytes() for s in ordered]  # as the parts of the file lie
        found["slices"] = [(s.layer, s.part, s.channels.tolist(), s.values.tobytes()) for s in delta.slices]
        rows = run.leave_one_out()
        found["left out"] = [(margins(r), r[:, CHANCE].copy()) for r in rows[:2] if r is not None]
        evidence = Evidence(run.losses, plan.recipe.n_steps, run.is_finite, *rows)
        found["reasons"] = [r.code for r in judge(evidence, episode.support, episode.class_names).reasons]
        found["delta"] = encode_delta(delta)
        found["verdicts"] = {}
        run.predict(delta)
        heads = delta.head, run._before[0]  # what answers if the guard keeps it, or refuses it
        found["facts"] = [(head.temperature, head.left_out, head.limit) for head in heads]
        said = [found["verdicts"].get(id(head), []) for head in heads]
        found["verdicts"] = [s[:: max(1, len(s) // len(query))] for s in said]  # one head may answer twice
        found["answers"] = run._answers.copy()
    return found
