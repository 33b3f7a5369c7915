"""`tinytrain.Predictor`: `tinytrain.runtime.predict.Predictor` with names and paths."""

import os

from tinytrain.api.opening import open_delta, open_network
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.network.network import Network
from tinytrain.report import Report
from tinytrain.runtime import predict


class Predictor(predict.Predictor):
    """A network with a delta applied: ``Predictor(delta="fruit.safetensors")("new.jpg").name``.

    `delta` is a `Delta`, the path of its file, or the `Report` of the adaptation. `network` is a `Network`, a
    path or a name; by default the backbone of the delta is found by its digest, if it is the shipped one or
    in the cache. Raises InputError for a delta of another backbone, or if the backbone is not found.
    """

    def __init__(
        self,
        network: str | os.PathLike | Network | None = None,
        delta: str | os.PathLike | Delta | Report | None = None,
        backend: str = "auto",
    ):
        if delta is None:
            given = os.fspath(network) if isinstance(network, str | os.PathLike) else "fruit.safetensors"
            raise InputError("bad-value", f"no delta given; write Predictor(delta={given!r})")
        delta = open_delta(delta)
        super().__init__(open_network(network, delta), delta, backend)
