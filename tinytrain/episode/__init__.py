"""Images, and other kinds of input, as an adaptation takes them: labelled, decoded, augmented."""

from tinytrain.network.input_spec import InputSpec

# How large an image is asked for: the side of a square, or (height, width).
Size = int | tuple[int, int]


def sides(size: Size) -> tuple[int, int]:
    """(height, width)."""
    return (size, size) if isinstance(size, int) else size


# What is asked for: the side of a square RGB image or the (height, width, channels) of one may stand for it.
Input = InputSpec | int | tuple[int, int, int]


def spec_of(given: Input) -> InputSpec:
    """The description that `given` stands for."""
    if isinstance(given, InputSpec):
        return given
    return InputSpec((given, given, 3) if isinstance(given, int) else tuple(given))
