"""Transductive fine-tuning: trains all parameters, also for confident predictions on unlabelled queries.

Dhillon et al., "A Baseline for Few-Shot Image Classification", ICLR 2020 (arXiv 1909.02729). The loss is the
cross-entropy of the labelled images plus the mean Shannon entropy of the predictions for the queries, with
equal weights. No other policy here needs the query images during training. It is a baseline of TinyTrain's
main table (averages over nine sets in per cent: MCUNet 61.5, MobileNetV2 56.5, ProxylessNASNet 59.4).
"""

from dataclasses import replace

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, StepOptions
from tinytrain.plan.scores import Scores
from tinytrain.policies import baselines
from tinytrain.policies.common import Policy

ENTROPY = 1.0


def recipe(
    network: Network, scores: Scores | None, budget: Budget, task: TaskShape, fraction: float
) -> Recipe:
    full = baselines.FULL.recipe(network, scores, budget, task, fraction)
    return replace(full, policy="transductive", options=StepOptions(entropy=ENTROPY))


POLICY = Policy("transductive", recipe, "Dhillon et al., ICLR 2020", shrinks=False, macs_limited=False)
