"""Words that mean nothing, spoken by eSpeak NG: classes are words, clips are voices, speeds and pitches.

A word is some syllables in the spelling of a language, which a voice of that language reads. The program
``espeak-ng`` must be installed; the clips are made when they are read, and none of them is part of TinyTrain.
"""

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain
from tinytrain.datasets.generated.sounds import RATE, wav_bytes
from tinytrain.episode.wav import parsed, samples_of

# Every second word is English, in any of its accents.
ENGLISH = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-us-nyc", "en-gb-x-gbclan")
OTHERS = (
    "es", "de", "it", "fr-fr", "pt-br", "pl", "tr", "nl", "sv", "fi", "hu", "cs", "ro", "id", "el", "sw",
)  # fmt: skip
VOICES = (
    "adam", "Alex", "Alicia", "Andrea", "Andy", "Annie", "antonio", "aunty", "belinda", "benjamin",
    "boris", "caleb", "david", "Denis", "Diogo", "ed", "edward", "edward2", "Gene", "Gene2",
    "grandma", "grandpa", "gustave", "Henrique", "Hugo", "iven", "iven2", "iven3", "iven4", "Jacky",
    "john", "kaukovalta", "klatt", "klatt2", "klatt3", "klatt4", "Lee", "linda", "m1", "m2", "m3",
    "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5", "marcelo", "Marco", "Mario", "max",
    "Michael", "michel", "miguel", "Mike", "Nguyen", "norbert", "pablo", "paul", "pedro", "quincy",
    "rob", "robert", "sandro", "shelby", "steph", "steph2", "steph3", "Storm", "travis", "victor",
    "zac", "croak", "whisper", "whisperf",
)  # fmt: skip
# By the seed: clips of an odd one are of voices that an even one does not have.
HALVES = (VOICES[::4] + VOICES[1::4] + VOICES[2::4], VOICES[3::4])
STARTS = (
    "b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "bl", "br",
    "ch", "cl", "dr", "fl", "gl", "gr", "kr", "pl", "pr", "sh", "sk", "sl", "sm", "sn", "sp", "st",
    "sw", "th", "tr",
)  # fmt: skip
MIDDLES = ("a", "e", "i", "o", "u", "ai", "ee", "oo", "ou", "a", "e", "i", "o", "u")
ENDS = (
    "", "m", "n", "l", "s", "t", "k", "r", "p", "d", "g", "f", "sh", "nd", "st", "lk", "ks", "mp",
    "", "", "", "", "", "", "", "",
)  # fmt: skip


def word(class_id: int) -> tuple[str, tuple[str, ...]]:
    """The spelling of a word, and the languages of which a voice may read it."""
    c = rng_for(0, "speech", "class", class_id)
    syllables = c.choice([1, 2, 3, 4], p=[0.35, 0.35, 0.2, 0.1])
    parts = (part[c.integers(len(part))] for _ in range(syllables) for part in (STARTS, MIDDLES, ENDS))
    return "".join(parts), ENGLISH if c.random() < 0.5 else (OTHERS[c.integers(len(OTHERS))],)


def spoken(class_id: int, clip: int, seed: int = 0) -> bytes:
    """The WAV file of a clip. Raises InputError ``package-missing`` without espeak-ng."""
    import subprocess

    text, languages = word(class_id)
    v = rng_for(seed, "speech", class_id, clip)
    voices = HALVES[seed % 2]
    voice = f"{languages[v.integers(len(languages))]}+{voices[v.integers(len(voices))]}"
    words = ("-v", voice, "-s", str(v.integers(110, 240)), "-p", str(v.integers(10, 95)), "--stdout", text)
    try:
        made = subprocess.run(("espeak-ng", *words), capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError("package-missing", f"{error}; run: apt-get install espeak-ng") from error
    file = parsed(made)
    samples = samples_of(file)
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max())
    samples = samples[loud[0] : loud[-1] + 1]
    count = round(len(samples) * RATE / file.rate)
    return wav_bytes(np.fft.irfft(np.fft.rfft(samples)[: count // 2 + 1], count))


speech = Domain(
    "speech", 20_000, lambda c: f"{word(c)[0]}-{c:05d}", lambda c, clip, seed, _: spoken(c, clip, seed),
    usual=range(19_100, 19_148), kind="sound",  # no encoder is trained on these
)  # fmt: skip
