"""An HTML page taken apart."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, and all texts but styles; every element is closed in its order."""

    def __init__(self, html: str):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(f"{text}\n" for text in self.texts)

    def all(self, tag: str, class_: str = "") -> list[dict]:
        return [a for kind, a in self.found if kind == tag and class_ in [*a.get("class", "").split(), ""]]
