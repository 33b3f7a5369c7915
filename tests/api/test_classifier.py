"""The classifier keeps the manners of scikit-learn, and says what `adapt` and `Predictor` say."""

import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cases import each
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted
from toyfiles import write_images, write_network

import tinytrain
from tinytrain import FewShotClassifier
from tinytrain.base.errors import InputError
from tinytrain.episode.sources import images_of
from tinytrain.pipeline.toy import SIZE, toy_images, toy_network

LABELS = np.repeat(["cherry", "apple", "banana"], 6)
NUMBERS = np.repeat([7, 3, 5], 6)
FRUIT = toy_images(np.repeat([0, 1, 2], 6))
X = np.stack([FRUIT.read(i, SIZE) for i in range(18)])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An unfitted classifier that takes a moment."""
    file = write_network(tmp_path_factory.mktemp("classifier"))
    return FewShotClassifier(str(file), "400kB", "last_layer", force=True)


@pytest.fixture
def fitted(small):
    return clone(small).fit(X, LABELS)


def test_it_answers_as_a_predictor_of_its_delta_does(fitted):
    expected = tinytrain.Predictor(toy_network(), fitted.delta_).probabilities(X)
    names = fitted.delta_.class_names
    assert fitted.classes_.tolist() == ["apple", "banana", "cherry"] == list(names)
    assert (fitted.predict_proba(X) == expected).all()
    assert fitted.predict(X).tolist() == [names[k] for k in expected.argmax(axis=1)]
    assert fitted.score(X, LABELS) == (fitted.predict(X) == LABELS).mean() > 0.5
    assert fitted.report_.delta is fitted.delta_ and fitted.report_.episode.shots.tolist() == [6, 6, 6]


def test_verdicts_say_which_images_are_of_no_class(fitted):
    found, predictor = fitted.verdicts(X), tinytrain.Predictor(toy_network(), fitted.delta_)
    assert found.tolist() == [seen.verdict for seen in predictor.predict(X)]
    assert set(found) <= {"identified", "uncertain", "unknown"}


@each(
    "y",
    [NUMBERS, NUMBERS.astype(np.int16), LABELS, LABELS.astype(object), NUMBERS == 7],
    ids=lambda y: y.dtype,
)
def test_labels_come_back_in_their_type(small, y):
    found = clone(small).fit(X, y)
    assert found.predict(X).dtype == y.dtype == found.classes_.dtype
    assert found.score(X, list(y)) == found.score(X, y) > 0.5


def test_lists_of_paths_arrays_and_object_arrays_are_the_same_images(small, tmp_path, fitted):
    objects = np.empty(18, object)
    objects[:] = list(X)
    for images in (list(X), objects):
        assert (clone(small).fit(images, LABELS).predict_proba(X) == fitted.predict_proba(images)).all()
    again = clone(small).fit(iter(X), iter(LABELS))
    assert (again.predict_proba(iter(X)) == fitted.predict_proba(X)).all() and again.score(iter(X), LABELS)
    write_images(tmp_path, count=3)
    paths = sorted(tmp_path.rglob("*.png"))
    y = [path.parent.name for path in paths]
    assert clone(small).fit(paths, y).predict(np.array(paths, str)).dtype.kind == "U"


def test_fitting_again_forgets_and_gives_the_same_bits(small, fitted):
    expected = fitted.predict_proba(X)
    fitted.fit(X[:12], NUMBERS[:12])
    assert fitted.classes_.tolist() == [3, 7]
    assert (fitted.fit(X, LABELS).predict_proba(X) == expected).all()


def test_clone_copies_the_parameters_and_nothing_else(small, fitted):
    given = FewShotClassifier(toy_network(), tinytrain.Budget(300_000), "none", 3, True, True)
    before = given.get_params()
    assert list(before) == [*inspect.signature(FewShotClassifier).parameters]
    copied = clone(given).get_params()
    assert copied.pop("backbone").digest == before["backbone"].digest
    assert copied == {name: value for name, value in before.items() if name != "backbone"}
    assert not any(name.endswith("_") for name in vars(clone(fitted)))


def test_fit_leaves_the_parameters_and_the_images_as_they_are(small):
    found, images = clone(small), X.copy()
    before = found.get_params()
    found.fit(images, LABELS)
    after = found.get_params()
    assert all(before[name] is after[name] for name in before) and (images == X).all()


def test_parameters_are_set_by_name_and_unknown_ones_refused():
    found = FewShotClassifier().set_params(budget="2MB", seed=4)
    assert (found.budget, found.seed) == ("2MB", 4)
    assert repr(found) == "FewShotClassifier(budget='2MB', seed=4)"
    with pytest.raises(ValueError, match="no parameter 'bugdet'; known are backbone, budget"):
        found.set_params(bugdet="2MB")


@each("method", ["predict", "predict_proba", "score", "transform"])
def test_before_fit_it_says_so_as_scikit_learn_does(small, method):
    call = getattr(clone(small), method)
    for kind in (ValueError, AttributeError, InputError):
        with pytest.raises(kind, match=r"usage: .* call fit first"):
            call(X, LABELS) if method == "score" else call(X)
    with pytest.raises(NotFittedError):
        check_is_fitted(small)
    check_is_fitted(clone(small).fit(X, LABELS))


# Those of scikit-learn's own checks that fit to no rows of numbers.
CHECKS = (
    "estimator_cloneable", "estimator_repr", "no_attributes_set_in_init", "get_params_invariance",
    "set_params", "parameters_default_constructible", "estimator_tags_renamed", "valid_tag_types",
    "mixin_order",
)  # fmt: skip


@each("name", CHECKS)
def test_it_passes_the_checks_of_scikit_learn(name):
    getattr(estimator_checks, f"check_{name}")("FewShotClassifier", FewShotClassifier())


def test_it_is_a_classifier_in_the_eyes_of_scikit_learn(small):
    assert is_classifier(small)
    shuffled = np.random.default_rng(0).permutation(18)
    scores = cross_val_score(small, X[shuffled], LABELS[shuffled], cv=3)
    assert scores.shape == (3,) and scores.mean() > 0.5
    assert (cross_val_score(small, list(X[shuffled]), list(LABELS[shuffled]), cv=3) == scores).all()


def test_it_stands_at_the_end_of_a_pipeline(small):
    pipeline = make_pipeline(FunctionTransformer(np.ascontiguousarray), clone(small)).fit(X, LABELS)
    assert pipeline.score(X, LABELS) == clone(small).fit(X, LABELS).score(X, LABELS)
    assert pipeline.predict_proba(X).shape == (18, 3)
    check_is_fitted(pipeline)


def test_its_embeddings_are_those_of_the_adapted_network_for_a_pipeline_of_ones_own(small, fitted):
    found = fitted.transform(X)
    assert found.dtype == np.float32 and fitted.get_feature_names_out().shape == found.shape[1:]
    assert (found == tinytrain.Predictor(toy_network(), fitted.delta_).embed(images_of(X))).all()
    assert (clone(small).fit_transform(iter(X), LABELS) == found).all()
    pipeline = make_pipeline(clone(small), StandardScaler(), LogisticRegression()).fit(X, LABELS)
    assert pipeline.score(X, LABELS) > 0.5 and pipeline[:-1].get_feature_names_out().shape == found.shape[1:]


class Table:
    """A DataFrame, as far as it matters: iterated, it gives the names of its columns."""

    def __init__(self, **columns):
        self.columns = columns

    def __iter__(self):
        return iter(self.columns)

    def to_numpy(self):
        return np.array([*self.columns.values()], object).T


def test_a_table_of_one_column_is_its_images_and_one_of_more_says_what_to_give(small, tmp_path):
    write_images(tmp_path, count=3)
    paths = [str(path) for path in sorted(tmp_path.rglob("*.png"))]
    y = [os.path.basename(os.path.dirname(path)) for path in paths]
    expected = clone(small).fit(paths, y)
    assert expected.n_features_in_ == 1
    for table in (Table(path=paths), np.array(paths, object)[:, None], np.array(paths)[:, None]):
        found = clone(small).fit(table, y)
        assert (found.predict_proba(table) == expected.predict_proba(paths)).all()
        assert found.score(table, y) == expected.score(paths, y)
    for call in (lambda t: clone(small).fit(t, y), expected.predict, expected.transform):
        with pytest.raises(InputError, match=r"a table of 2 columns given; give the one with the images"):
            call(Table(path=paths, more=paths))


@each("missing", [None, np.nan])
@each("kind", [list, np.array, lambda y: np.array(y, object)])
@each("labels", [LABELS, NUMBERS])
def test_a_missing_label_is_no_class(small, missing, kind, labels):
    y = kind([*labels[:17].tolist(), missing])
    with pytest.raises(InputError, match=r"labels: 1 of 18 labels are missing, the first that of image 17"):
        clone(small).fit(X, y)


def test_a_grid_search_chooses_budget_and_policy(small):
    grid = {"policy": ["none", "last_layer"], "budget": ["300kB", 400_000]}
    search = GridSearchCV(small, grid, cv=2).fit(X, LABELS)
    assert set(search.best_params_) == set(grid) and search.score(X, LABELS) > 0.5
    assert len(search.cv_results_["params"]) == 4 and np.isfinite(search.cv_results_["mean_test_score"]).all()


@each("names", ["toy", "toy+second"])
def test_a_pickle_answers_with_the_same_bits_and_learns_on(small, tmp_path, names):
    files = (write_network(tmp_path, seed, name) for seed, name in enumerate(names.split("+")))
    fitted = clone(small).set_params(backbone="+".join(map(str, files))).fit(X, LABELS)
    assert fitted.report_.network.name == names
    expected, more = fitted.predict_proba(X), X[:6][:, ::-1]
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == expected).all() and (again.classes_ == fitted.classes_).all()
    assert again.get_params() == fitted.get_params() and not hasattr(again, "report_")
    assert again.delta_.report == fitted.delta_.report
    for one in (fitted, again):
        one.partial_fit(more, ["mango"] * 6)
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert pickle.loads(pickle.dumps(FewShotClassifier(seed=3))).seed == 3


def test_more_images_are_learnt_without_the_old_ones(small):
    at_once = clone(small).fit(X[:12], NUMBERS[:12])
    found = clone(small).partial_fit(X[:12], NUMBERS[:12], classes=[3, 5, 7])
    assert (found.predict_proba(X) == at_once.predict_proba(X)).all(), "the first call is fit"
    assert found.partial_fit(X[12:], NUMBERS[12:]) is found
    assert found.classes_.tolist() == [3, 5, 7], "sorted, although 5 came last"
    assert found.delta_.class_names == ("3", "7", "5")
    added = tinytrain.add_classes(
        toy_network(), at_once.delta_, toy_images(np.repeat([2], 6)).take([]).__class__(
            np.zeros(6, np.int32), tuple("abcdef"), lambda i, size: X[12 + i]
        ), ("5",),
    )  # fmt: skip
    expected = tinytrain.Predictor(toy_network(), added).probabilities(X)[:, [0, 2, 1]]
    assert (found.predict_proba(X) == expected).all()
    assert (found.predict(X[12:]) == 5).mean() > 0.5 and found.predict(X).dtype == NUMBERS.dtype


@each(
    "images,y,words",
    [
        (X, LABELS[:5], "5 labels given for 18 images"),
        (X[:2], [["a"], ["b"]], "2 x 1 labels given for 2 images"),
        (X, "apple", "a single labels given for 18 images"),
        (X[:2], [0.5, 1.5], "labels are float64; give texts or whole numbers"),
        (X[:2], np.array(["a", 3], object), "labels are object; give texts or whole numbers"),
        (X[:2], ["a", "a"], "too-few-classes: 1 class given"),
        ([], [], "too-few-classes: 0 images given"),
        ("photos/", ["a"], "str given; give a list"),
        (X[:2] / 255, ["a", "b"], "image 0 is a float64 array"),
        (["missing.png", "too.png"], ["a", "b"], "file-missing: 'missing.png'"),
    ],
)
def test_images_and_labels_that_do_not_fit_are_refused(small, images, y, words):
    with pytest.raises(InputError, match=words):
        clone(small).fit(images, y)


@each(
    "first, later",
    [(NUMBERS.astype(object), ["x"]), (NUMBERS == 7, [1]), (NUMBERS, [True]), (NUMBERS, ["7"])],
)
def test_labels_of_another_type_are_refused_when_more_images_come(small, first, later):
    with pytest.raises(InputError, match="labels"):
        clone(small).fit(X, first).partial_fit(X[:1], later)


def test_signed_and_unsigned_labels_are_whole_numbers_together(small):
    more = clone(small).fit(X, NUMBERS.astype(np.uint64)).partial_fit(X[:2], np.array([9, 7]))
    assert more.classes_.tolist() == [3, 5, 7, 9] and more.classes_.dtype.kind in "iu"
    assert np.allclose(more.predict_proba(X).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("images", [X[0], X[0][..., :1], np.array(3, np.uint8)])
def test_a_single_image_is_not_taken_for_a_list_of_its_rows(fitted, images):
    with pytest.raises(InputError, match=r"bad-value: an array of .* is no list of images; give \[image\]"):
        fitted.predict(images)


@pytest.mark.parametrize("y", [[1, "1", "c"] * 6, [[1], [2, 3]] + [1] * 16])
def test_labels_that_numpy_would_mix_are_refused(small, y):
    with pytest.raises(InputError, match="labels"):
        clone(small).fit(X, y)


def test_the_package_does_not_need_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
import numpy as np, tinytrain
from tinytrain.pipeline.toy import toy_images, toy_network
images = toy_images(np.repeat([0, 1], 4))
X = [images.read(i, 16) for i in range(8)]
found = tinytrain.FewShotClassifier(toy_network(), 400_000, "none").fit(X, list("aaaabbbb"))
print(found.score(X, list("aaaabbbb")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0.5
