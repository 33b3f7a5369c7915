"""Weight imprinting: the weights of a class are the mean of its unit embeddings, scaled to length 1.

After Qi, Brown and Lowe, "Low-Shot Learning with Imprinted Weights", CVPR 2018, as Coral's imprinting engine
has it: a class can be added at any time, and the others keep the bits of their logits.
The mean itself is kept beside the weights, so that learning one by one is learning from all at once; scaling
after every image, as the engine does, would let the order count.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.cosine import Cosine, CosineHead
from tinytrain.heads.head import unit


@dataclass(frozen=True, eq=False)
class ImprintHead(CosineHead):
    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        """As of any linear head, but class by class: the bits of one do not depend on how many there are."""
        x = unit(embeddings)
        return np.stack([x @ row for row in self.weights], axis=1) + self.offsets


class Imprint(Cosine):
    name, head = "imprint", ImprintHead


METHOD = Imprint()
