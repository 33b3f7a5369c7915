"""What an adaptation did and cost: JSON is the truth, text and HTML are views of it."""

import json

from tinytrain.report.html import render_html
from tinytrain.report.report import Report
from tinytrain.report.text import render_text

__all__ = ["RENDERERS", "Report"]

# Suffix of a report file -> what makes its text from the report's JSON and, for a page, its thumbnails.
RENDERERS = {
    ".html": render_html,
    ".json": lambda facts, thumbnails=None: json.dumps(facts, indent=2) + "\n",
    ".txt": lambda facts, thumbnails=None: render_text(facts) + "\n",
}
