"""A small encoder of text of the kind BERT: tensors as published files name them, and what they mean."""

import math

import numpy as np
from oracletokens import gelu

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "##a", "##b", "##ab", "rain", "##ing", "lamp",
         "on", "off", "wake", "me", "!", ",", "-", "cafe", "東", "京", "it", "is")  # fmt: skip
SIZE, HEADS, LAYERS = 8, 2, 2


def vocabulary() -> bytes:
    return "".join(f"{word}\n" for word in WORDS).encode()


def tensors(seed=0) -> dict[str, np.ndarray]:
    r = np.random.default_rng(seed)
    shapes = {
        "embeddings.word_embeddings": (len(WORDS), SIZE), "embeddings.position_embeddings": (40, SIZE),
        "embeddings.token_type_embeddings": (2, SIZE), "embeddings.LayerNorm": (SIZE,),
    }  # fmt: skip
    for k in range(LAYERS):
        at = f"encoder.layer.{k}"
        names = [f"attention.self.{name}" for name in ("query", "key", "value")]
        shapes |= {f"{at}.{name}": (SIZE, SIZE) for name in (*names, "attention.output.dense")}
        shapes |= {f"{at}.intermediate.dense": (3 * SIZE, SIZE), f"{at}.output.dense": (SIZE, 3 * SIZE)}
        shapes |= {f"{at}.{name}.LayerNorm": (SIZE,) for name in ("attention.output", "output")}
    made = {}
    for name, shape in shapes.items():
        made[f"{name}.weight"] = r.standard_normal(shape).astype("f")
        if not name.endswith("_embeddings"):
            made[f"{name}.bias"] = r.standard_normal(shape[0]).astype("f")
    return made


def meaning(made: dict[str, np.ndarray], words: list[int]) -> np.ndarray:
    """The mean of what the published network gives for these words and no others, in float64."""
    t = {name: array.astype(float) for name, array in made.items()}

    def norm(x, at):
        x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
        return x * t[f"{at}.LayerNorm.weight"] + t[f"{at}.LayerNorm.bias"]

    def dense(x, at):
        return x @ t[f"{at}.weight"].T + t[f"{at}.bias"]

    x = t["embeddings.word_embeddings.weight"][words]
    x = x + t["embeddings.position_embeddings.weight"][: len(words)]
    x = norm(x + t["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for k in range(LAYERS):
        at = f"encoder.layer.{k}"
        found = []
        parts = (dense(x, f"{at}.attention.self.{name}") for name in ("query", "key", "value"))
        for q, key, v in zip(*(np.split(part, HEADS, axis=1) for part in parts), strict=True):
            e = np.exp(q @ key.T / math.sqrt(SIZE // HEADS))
            found.append(e / e.sum(axis=1, keepdims=True) @ v)
        x = norm(
            x + dense(np.concatenate(found, axis=1), f"{at}.attention.output.dense"), f"{at}.attention.output"
        )
        hidden = gelu(dense(x, f"{at}.intermediate.dense"))[0]
        x = norm(x + dense(hidden, f"{at}.output.dense"), f"{at}.output")
    return x.mean(axis=0)
