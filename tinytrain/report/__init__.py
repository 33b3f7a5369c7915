"""What an adaptation did and cost: JSON is the truth, text and HTML are views of it."""

import json

from tinytrain.report.report import Report
from tinytrain.report.text import render_text

__all__ = ["RENDERERS", "Report"]


def _page(facts: dict, thumbnails=None) -> str:
    """What draws a page is imported when one is drawn: commands start faster without."""
    from tinytrain.report.html import render_html

    return render_html(facts, thumbnails)


# Suffix of a report file -> what makes its text from the report's JSON and, for a page, its thumbnails.
RENDERERS = {
    ".html": _page,
    ".json": lambda facts, thumbnails=None: json.dumps(facts, indent=2) + "\n",
    ".txt": lambda facts, thumbnails=None: render_text(facts) + "\n",
}
