"""Everything in float32."""

from tinytrain.program import optimizer_stages
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.program.backend import Backend
from tinytrain.program.backends.working_copy import WorkingCopy
from tinytrain.program.signatures import SIGNATURES

# All but those of codes.
KERNELS = {k: s for k, s in SIGNATURES.items() if "int8" not in {a.dtype for a in s.arrays.values()}}


class Float32(Backend):
    """Activations, weights, gradients and what a delta stores are float32."""

    name = "float32"
    signatures = KERNELS
    emitter, updates, copy = Emitter, optimizer_stages, WorkingCopy
