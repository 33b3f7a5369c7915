"""The ticks of an adaptation: what is not alive at the same tick may share memory.

A training run passes through seven, of which EMBED and BACKWARD take turns in every step.
"""

FILL, BEFORE, EMBED, BACKWARD, AFTER, RESULT, PREDICT = range(7)
