"""How many fields a protobuf message holds, counted in its bytes before anything is made of them.

A field of two bytes becomes an object of a hundred; and a number of one byte in a list takes eight, or thirty
as an object of Python. Weights, which stand in a file as they stand in memory, count as one field.
"""

MAX_FIELDS = 200_000  # MobileNetV2 has about 4,000
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
AS_IN_MEMORY = ("float_data", "double_data")  # of tensors, where they are lists of numbers of fixed length


def count_fields(data: bytes, descriptor) -> int:
    """Fields of the message `data` of the kind `descriptor` and of all in it; stops above MAX_FIELDS.

    Raises ValueError if the bytes are no such message.
    """
    count, todo = 0, [(0, len(data), descriptor)]
    while todo:
        at, end, kind = todo.pop()
        while at < end and count <= MAX_FIELDS:
            at, number, start = _field(data, at, end)
            count += 1
            field = kind.fields_by_number.get(number)
            if field is None or start is None:
                continue
            if field.message_type is not None:
                todo.append((start, at, field.message_type))
            elif field.type not in (field.TYPE_STRING, field.TYPE_BYTES) and field.name not in AS_IN_MEMORY:
                count += at - start  # a list of numbers, of one byte or more each
    return count


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int | None]:
    """(where the next field starts, number of the one at `at`, where its content starts if it is bytes)."""
    tag, at = _varint(data, at, end)
    kind, start = tag & 7, None
    if kind == VARINT:
        _, at = _varint(data, at, end)
    elif kind == BYTES:
        length, start = _varint(data, at, end)
        at = start + length
    elif kind in (FIXED64, FIXED32):
        at += 8 if kind == FIXED64 else 4
    else:
        raise ValueError(f"a field of kind {kind} at byte {at}")
    if at > end:
        raise ValueError(f"a field that goes on behind byte {end}")
    return at, tag >> 3, start


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(number, where the next byte is)."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise ValueError(f"a number cut off at byte {at}")
