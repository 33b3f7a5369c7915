"""Transductive fine-tuning: everything is trained, also towards sure answers for the unlabelled queries.

Dhillon et al., "A Baseline for Few-Shot Image Classification", ICLR 2020 (arXiv 1909.02729): cross-entropy of
the labelled images plus the mean Shannon entropy of what is predicted for the queries, equally
weighted. It needs the images to be judged while it trains, which no other policy here does, and is a
baseline of TinyTrain's main table (averages over nine sets, %: MCUNet 61.5,
MobileNetV2 56.5, ProxylessNASNet 59.4).
"""

from dataclasses import replace

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, StepOptions
from tinytrain.plan.scores import Scores
from tinytrain.policies import baselines
from tinytrain.policies.common import Policy

ENTROPY = 1.0


def recipe(network: Network, scores: Scores | None, budget: Budget, task: TaskShape, share: float) -> Recipe:
    full = baselines.FULL.recipe(network, scores, budget, task, share)
    return replace(full, policy="transductive", options=StepOptions(entropy=ENTROPY))


POLICY = Policy("transductive", recipe, "Dhillon et al., ICLR 2020", shrinks=False, macs_limited=False)
