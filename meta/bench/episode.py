"""One episode under one policy: accuracy, bytes, MACs and seconds as one record. Runs in any process."""

import time
from functools import lru_cache, partial

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import AdaptationRefusedError, InputError
from tinytrain.datasets import Dataset, open_dataset
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.accounting import PUBLISHED_BATCH, memory_at_batch
from tinytrain.meta.bench.checks import require_apart
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.bench.jobs import Job
from tinytrain.meta.bench.sampler import Entry, decoded
from tinytrain.network.network import Network
from tinytrain.pipeline.committee import adapt
from tinytrain.policies.own import given_policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

ACCURACIES = ("before_cosine", "before", "after")
MACS = ("backward_per_query", "full_backward", "total", "stages")  # as a report has them
UNADAPTED = Entry("none", "none")

network_of = lru_cache(maxsize=8)(load_backbone)
dataset_of = lru_cache(maxsize=16)(open_dataset)


def run_job(job: Job) -> list[dict]:
    """The records of a job, in the order of its entries. Raises what datasets, networks and `adapt` raise.

    Raises InputError ``run-mismatch`` in a process whose code is not that of the job.
    """
    _require_code(job.code)
    network, dataset = network_of(job.backbone.file), dataset_of(job.pack, job.data)
    if network.digest != job.backbone.digest:
        raise InputError(
            "run-mismatch",
            f"{job.backbone.file} has digest {network.digest}, the run began with {job.backbone.digest}; "
            "start it again",
        )
    episode = drawn(dataset, job, network)
    return [job.identity(entry) | run_episode(network, episode, entry, job.seed) for entry in job.entries]


def _require_code(code: str) -> None:
    """A worker of a cluster has its own environment, maybe with another version."""
    if (here := code_hash()) != code:
        raise InputError(
            "run-mismatch",
            f"a worker runs code {here}, the run began with {code}; start the workers with the same version",
        )


def drawn(dataset: Dataset, job: Job, network: Network) -> Episode:
    """The episode of a job, its images decoded once for all policies. Raises InputError for a leak."""
    episode = job.sampler.draw(dataset, job.seed)
    require_apart(dataset, episode)
    return decoded(episode, network)


def run_episode(network: Network, episode: Episode, entry: Entry, seed: int) -> dict:
    """What one policy makes of one episode.

    Where the adaptation is refused, the old weights stand: the accuracy is that of the unadapted network, and
    there are no costs.
    """
    started = time.perf_counter()
    facts = {"digest": episode.digest, "way": episode.n_way, "n_support": len(episode.support)}
    try:
        # Forced: methods are compared, not the guard; what is not finite is refused all the same.
        policy = given_policy(entry.policy).with_rates(entry.rate_scale)
        report = adapt(network, episode, entry.budget, policy, seed, Device(threads=1), force=True)
        refused = "" if report.guard.accepted else report.guard.reasons[0].code
    except AdaptationRefusedError as error:
        refused = error.code
    if refused:
        plain = run_episode(network, episode, UNADAPTED, seed)["accuracy"]
        accuracy = dict.fromkeys(ACCURACIES, plain["after"])
        elapsed = {"seconds": {"wall": time.perf_counter() - started}}
        return facts | {"refused": refused, "accuracy": accuracy} | elapsed
    wall = {"wall": time.perf_counter() - started}
    found = report.to_json()
    return facts | {
        "head": found["resources"]["head"],
        "accuracy": {name: found["accuracy"][name] for name in ACCURACIES},
        "memory": _memory(report, found["memory"]),
        "macs": {
            "backward_per_sample": found["macs"]["dearest_image"],
            **{name: found["macs"][name] for name in MACS},
        },
        "selection": {
            str(row["layer"]): row["n_channels"] for row in found["selection"] if row["n_channels"]
        },
        "seconds": found["seconds"] | wall,
    }


def _memory(report: Report, memory: dict) -> dict:
    if members := getattr(report, "members", ()):  # they take turns
        rows = [_memory(member, member.to_json()["memory"]) for member in members]
        found = {name: max(row[name] for row in rows) for name in rows[0]}
        return found | {name: memory[name] for name in ("arena", "trained_parameters")}
    network, updates, numbers = report.network, report.plan.recipe.updates, memory["trained_parameters"]
    at_batch = partial(memory_at_batch, network.layers, updates, numbers, modules=network.possible_modules)
    return {
        "arena": memory["arena"],
        "paper": memory["paper"],
        "batch_1": at_batch(batch=1),
        f"batch_{PUBLISHED_BATCH}": at_batch(batch=PUBLISHED_BATCH),
        "trained_parameters": numbers,
    }
