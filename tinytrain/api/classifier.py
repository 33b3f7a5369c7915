"""A classifier with the methods and the manners of one of scikit-learn, which it does not need.

It can stand in a pipeline, in `cross_val_score` and in `GridSearchCV`, and `clone` copies it. An `X` is a
list of images (paths, bytes of image files, PIL images, uint8 arrays (rows, columns, 3) in RGB order), an
array of them, (n, rows, columns, 3), or a table with one column of them.
"""

import inspect
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tinytrain.api.adapt import adapt
from tinytrain.api.opening import open_budget, open_network, open_policy
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.episode.episode import Images, episode_type
from tinytrain.episode.sources import column_of, images_of
from tinytrain.network.network import Network
from tinytrain.pipeline.add_classes import add_classes
from tinytrain.pipeline.continual import NO_IMAGES
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import least_classes
from tinytrain.runtime.predict import Predictor


class NotFittedError(InputError, ValueError, AttributeError):
    """A classifier was asked before its `fit`."""


class FewShotClassifier:
    """Adapts `backbone` to labelled images inside `budget`: `fit(X, y)`, then `predict(X)`.

    The parameters are those of `tinytrain.adapt`; `flip` says that mirroring an image does not change its
    class. After `fit`, `classes_` has the labels, sorted, `delta_` the result and `report_` its report (a
    pickle of the classifier has no `report_`; `delta_.report` has its JSON). `fit` holds no image out:
    `cross_val_score` and `score` judge. As scikit-learn counts, an image is one feature, `n_features_in_`.
    """

    def __init__(
        self,
        backbone: str | Network = "small",
        budget: str | int | Budget | None = None,
        policy: str | Policy | Plan = "tinytrain",
        seed: int = 0,
        flip: bool = False,
        force: bool = False,
        head: str | None = None,
    ):
        self.backbone, self.budget, self.policy = backbone, budget, policy
        self.seed, self.flip, self.force, self.head = seed, flip, force, head

    def fit(self, X: Iterable, y: Iterable) -> "FewShotClassifier":
        """Adapt to the images `X` with labels `y` (n,), texts or whole numbers, and forget what was before.

        One class is enough for the head "oselm-ae": a `Predictor` with `delta_` says what is not of it.

        Raises what `tinytrain.adapt` raises, and InputError ``labels`` for labels that do not fit.
        """
        network = open_network(self.backbone)
        images, labels = _labelled(X, y, network.input.kind)
        classes, rows = np.unique(labels, return_inverse=True)
        support = images_of(images, rows.astype(np.int32), kind=network.input.kind)
        source = f"{len(images)} images given to fit"
        kind = episode_type(least_classes(open_policy(self.policy, self.head)))
        episode = kind(support, NO_IMAGES, _names(classes), self.flip, source)
        budget = self.budget
        if budget is None and not isinstance(self.policy, Plan):
            budget = open_budget(None, self.backbone)
        report = adapt(network, episode, budget, self.policy, self.seed, force=self.force, head=self.head)
        self.report_, self.delta_, self.classes_ = report, report.delta, classes
        self._columns, self._predictor = np.arange(len(classes)), Predictor(network, report.delta)
        self.n_features_in_ = 1
        return self

    def fit_transform(self, X: Iterable, y: Iterable) -> np.ndarray:
        """`fit`, and the embeddings (n, d) of the same images."""
        X = list(X) if isinstance(X, Iterator) else X
        return self.fit(X, y).transform(X)

    def transform(self, X: Iterable) -> np.ndarray:
        """Embeddings (n, d) float32 of the adapted network, for a classifier of your own.

        Raises NotFittedError.
        """
        return self._opened().embed(self._images(X))

    def get_feature_names_out(self, input_features: Iterable | None = None) -> np.ndarray:
        """Names (d,) of the columns of `transform`. Raises NotFittedError."""
        self._opened()
        names = (f"embedding{k}" for k in range(self.delta_.head.embedding_size))
        return np.array([*names], dtype=object)

    def partial_fit(self, X: Iterable, y: Iterable, classes: Iterable | None = None) -> "FewShotClassifier":
        """Add images of known or new classes without the old ones; the first call is `fit`.

        Only the head learns: see `tinytrain.add_classes`. `classes`, the labels that may ever come, is what
        scikit-learn passes; a class is known from its first image on. Raises InputError ``labels`` for labels
        of another type than those of `fit`, and what `tinytrain.add_classes` raises.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        network = self._opened().network
        images, labels = _labelled(X, y, network.input.kind)
        added, rows = np.unique(labels, return_inverse=True)
        if _kind(added) != _kind(self.classes_):
            both = f"labels are {added.dtype}, those of fit are {self.classes_.dtype}"
            raise InputError("labels", f"{both}; give the same type")
        given = images_of(images, rows.astype(np.int32), kind=network.input.kind)
        self.delta_ = add_classes(network, self.delta_, given, _names(added), self.seed, self.flip)
        # As Python values: numpy makes fractions of signed and unsigned numbers together.
        self.classes_ = np.array(sorted({*self.classes_.tolist(), *added.tolist()}))
        self._columns = np.array([self.delta_.class_names.index(name) for name in _names(self.classes_)])
        self._predictor = Predictor(network, self.delta_)
        return self

    def predict_proba(self, X: Iterable) -> np.ndarray:
        """Calibrated probabilities (n, classes), a column for each of `classes_`. Raises NotFittedError."""
        return self._opened().probabilities(self._images(X))[:, self._columns]

    def predict(self, X: Iterable) -> np.ndarray:
        """The likeliest label of each image, (n,), of the type of the labels given. Raises NotFittedError."""
        columns = self.predict_proba(X).argmax(axis=1)
        return self.classes_[columns]

    def verdicts(self, X: Iterable) -> np.ndarray:
        """ "identified", "uncertain" or "unknown" for each image, (n,). Raises NotFittedError.

        An unknown image belongs to none of the classes, although `predict` names the likeliest: see
        `tinytrain.Prediction`.
        """
        return np.array([found.verdict for found in self._opened().predict(self._images(X))])

    def score(self, X: Iterable, y: Iterable) -> float:
        """The fraction of the images whose label is predicted. Raises NotFittedError."""
        images, labels = _labelled(X, y, self._opened().input.kind)
        return float(np.mean(self.predict(images) == labels))

    def _images(self, X: Iterable) -> Images:
        return images_of(X, kind=self._opened().input.kind)

    def _opened(self) -> Predictor:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("usage", "this FewShotClassifier was not fitted; call fit first")
        if self._predictor is None:  # it was pickled
            self._predictor = Predictor(open_network(self.backbone, self.delta_), self.delta_)
        return self._predictor

    # ---- what scikit-learn asks ------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. None of them is an estimator, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(FewShotClassifier).parameters}

    def set_params(self, **parameters) -> "FewShotClassifier":
        """Set parameters by name. Raises UsageError (also a ValueError) for an unknown one."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise _UnknownParameterError("usage", f"no parameter {name!r}; known are {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "delta_" in vars(self)

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="classifier",
            transformer_tags=TransformerTags(preserves_dtype=[]),
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, string=True),
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(FewShotClassifier).parameters
        given = (f"{k}={v!r}" for k, v in self.get_params().items() if v != defaults[k].default)
        return f"FewShotClassifier({', '.join(given)})"

    def __getstate__(self) -> dict:
        """Without the report, whose images are open files, and with the delta as the bytes of its file."""
        state = {name: value for name, value in vars(self).items() if name != "report_"}
        if self.__sklearn_is_fitted__():
            state |= {"delta_": encode_delta(self.delta_), "_predictor": None}
        return state

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        if "delta_" in state:
            self.delta_ = decode_delta(*decode(state["delta_"]))


class _UnknownParameterError(UsageError, ValueError):
    """scikit-learn expects a ValueError."""


def _names(labels: np.ndarray) -> tuple[str, ...]:
    """Labels as names of classes, in composed letters as a delta keeps them."""
    return tuple(unicodedata.normalize("NFC", str(label)) for label in labels.tolist())


def _kind(labels: np.ndarray) -> type:
    """The type of labels, which are all alike: str, int or bool."""
    return type(labels.tolist()[0])


def _is_missing(label) -> bool:
    """Whether a label is what pandas, numpy and scikit-learn put where there is none, also made a text."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or str(label) in ("nan", "<NA>")


def _array(y: Iterable) -> np.ndarray:
    """Labels as an array. Raises InputError ``labels`` where numpy would make texts of numbers, or fails."""
    y = list(y) if isinstance(y, Iterator) else y
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise InputError("labels", "labels are lists of several lengths; give one for each image") from error
    listed = labels.ndim == 1 and isinstance(y, list | tuple)
    if labels.dtype.kind == "U" and listed and not all(isinstance(label, str) for label in y):
        if not any(map(_is_missing, y)):
            raise InputError("labels", "labels are both texts and numbers; give only one of them")
        labels = np.array(y, dtype=object)
    return labels


def _labelled(X: Iterable, y: Iterable, kind: str) -> tuple[list, np.ndarray]:
    """Images as a list and their labels (n,). Raises InputError ``labels`` unless there is one for each."""
    X = list(X) if isinstance(X, Iterator) else X
    images_of(X, kind=kind)  # refuses what is no list of images, before it is counted
    images, labels = list(column_of(X)), _array(y)
    given = " x ".join(map(str, labels.shape)) or "a single"
    if labels.ndim != 1 or len(labels) != len(images):
        raise InputError("labels", f"{given} labels given for {len(images)} images; give one for each")
    if missing := [k for k, label in enumerate(labels.tolist()) if _is_missing(label)]:
        text = f"{len(missing)} of {len(labels)} labels are missing, the first that of image {missing[0]}"
        raise InputError("labels", f"{text} ({labels[missing[0]]}); leave out these images")
    kinds = {type(label) for label in labels.tolist()}
    if not len(labels):
        raise InputError("too-few-classes", "0 images given; give some of at least 2 classes")
    if labels.dtype.kind not in "iubUO" or not (kinds <= {str} or kinds <= {int} or kinds <= {bool}):
        raise InputError("labels", f"labels are {labels.dtype}; give texts or whole numbers")
    return images, labels
