"""Images, as an adaptation takes them: labelled, decoded, augmented."""

# How large an image is asked for: the side of a square, or (height, width).
Size = int | tuple[int, int]


def sides(size: Size) -> tuple[int, int]:
    """(height, width)."""
    return (size, size) if isinstance(size, int) else size


def shape_of(shape: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """(height, width, channels) where the side of a square RGB image may stand for it."""
    return (shape, shape, 3) if isinstance(shape, int) else shape
