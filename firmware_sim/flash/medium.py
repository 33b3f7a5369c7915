"""What is on a simulated medium, and the changes of it that reach it one by one or not at all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """A change of the folder that happens as a whole: a file number, or None, for each name."""

    changes: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Content:
    """A piece of content of file `number`."""

    number: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Size:
    """The size of file `number`."""

    number: int
    size: int


Change = Names | Content | Size


@dataclass(frozen=True)
class Medium:
    """What is on the medium: names to file numbers, file numbers to content. Never changed in place."""

    names: dict[str, int]
    contents: dict[int, bytes]

    def files(self) -> dict[str, bytes]:
        """What is found after a start."""
        return {name: self.contents.get(number, b"") for name, number in self.names.items()}

    def after(self, changes, fill: bytes) -> "Medium":
        """The medium with `changes` made in their order; where content is missing there is `fill`."""
        names, contents = dict(self.names), dict(self.contents)
        sizes: dict[int, int] = {}
        for change in changes:
            if isinstance(change, Size):
                sizes[change.number] = change.size
            if isinstance(change, Content):
                old = contents.get(change.number, b"")
                old += fill * (change.offset - len(old))
                contents[change.number] = (
                    old[: change.offset] + change.data + old[change.offset + len(change.data) :]
                )
                if change.number in sizes:  # content behind a cut makes the file longer again
                    sizes[change.number] = max(sizes[change.number], change.offset + len(change.data))
            elif isinstance(change, Names):
                names.update(change.changes)
        for number, size in sizes.items():
            content = contents.get(number, b"")
            contents[number] = content[:size] + fill * (size - len(content))
        return Medium({name: number for name, number in names.items() if number is not None}, contents)
