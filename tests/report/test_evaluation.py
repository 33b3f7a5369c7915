"""The accuracy of labelled images, what was wrong and what was confused."""

import numpy as np

from tinytrain.base.statistics import wilson_interval
from tinytrain.report.evaluation import MATRIX_CLASSES, NAMED, Answer, evaluation, evaluation_text


def answers(matrix) -> list[Answer]:
    """Answers with this confusion matrix; later ones are surer."""
    cells = [(i, j) for i, row in enumerate(matrix) for j, count in enumerate(row) for _ in range(count)]
    return [Answer(f"{i}/{k}.png", i, j, (k + 1) / (len(cells) + 1)) for k, (i, j) in enumerate(cells)]


MATRIX = [[8, 2, 0], [0, 5, 1], [0, 0, 0]]
NAMES = ("ant", "bee", "cat")


def test_the_matrix_and_the_accuracies_are_counted():
    result = evaluation(NAMES, answers(MATRIX))
    assert result["confusion"] == MATRIX and result["n"] == 16 and result["accuracy"] == 13 / 16
    assert result["per_class"] == {"ant": 0.8, "bee": 5 / 6}, "a class without images has none"
    assert result["interval"] == list(wilson_interval(13, 16))


def test_wrong_answers_come_surest_first_and_pairs_most_frequent_first():
    result = evaluation(NAMES, answers(MATRIX))
    sure = [row["confidence"] for row in result["wrong"]]
    assert sure == sorted(sure, reverse=True) and len(sure) == 3
    assert {(row["class"], row["answer"]) for row in result["wrong"]} == {("ant", "bee"), ("bee", "cat")}
    assert result["confused"] == [
        {"class": "ant", "answer": "bee", "count": 2, "n": 10},
        {"class": "bee", "answer": "cat", "count": 1, "n": 6},
    ]


def test_the_text_says_how_good_what_is_confused_and_which_images_were_wrong():
    text = evaluation_text(evaluation(NAMES, answers(MATRIX)))
    assert text.startswith("accuracy 81.2% (13 of 16 images), 95 % interval 57.0% to 93.4%, if adapt has")
    assert (
        "2 of 10 images of ant taken for bee" in text and "  0/9.png" in text and "answers by class" in text
    )


def test_without_mistakes_nothing_is_wrong_or_confused():
    text = evaluation_text(evaluation(NAMES, answers([[3, 0, 0], [0, 2, 0], [0, 0, 1]])))
    assert (
        "wrong" not in text and "taken for" not in text and text.startswith("accuracy 100.0% (6 of 6 images)")
    )


def test_many_wrong_images_and_many_classes_need_verbose():
    way = MATRIX_CLASSES + 10
    names = [f"class {c}" for c in range(way)]
    result = evaluation(names, answers(np.roll(np.eye(way, dtype=int), 1, axis=1).tolist()))
    short, long = evaluation_text(result), evaluation_text(result, verbose=True)
    assert short.count(".png") == NAMED and f"{way - NAMED} more; --verbose names all" in short
    assert "answers by class" not in short and "20 classes with the lowest accuracy" in short
    assert long.count(".png") == way and "answers by class" in long


def test_names_cannot_steer_the_terminal():
    text = evaluation_text(evaluation(("a\x1b[31m", "b\n"), [Answer("x\x1b.png", 0, 1, 0.5)]))
    assert "\x1b" not in text and "b\\n" in text
