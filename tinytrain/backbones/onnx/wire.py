"""Counts the fields of a protobuf message in its bytes, before it is parsed.

Parsing makes an object of a hundred bytes from a field of two, and a number of one byte in a list takes
eight, or thirty as a Python object. Weights, which have the same form in the file and in memory, count as
one field.
"""

MAX_FIELDS = 200_000  # MobileNetV2 has about 4,000
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
AS_IN_MEMORY = ("float_data", "double_data")  # fields of tensors: lists of numbers of fixed length


def count_fields(data: bytes, descriptor) -> int:
    """Number of fields of the message `data` of type `descriptor`, with nested ones; stops above MAX_FIELDS.

    Raises ValueError if the bytes are not such a message.
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
                count += at - start  # a list of numbers, each of at least one byte
    return count


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int | None]:
    """(start of the next field, number of the field at `at`, start of its content if it is bytes)."""
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
        raise ValueError(f"a field that extends beyond byte {end}")
    return at, tag >> 3, start


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(number, position of the next byte)."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise ValueError(f"a number truncated at byte {at}")
