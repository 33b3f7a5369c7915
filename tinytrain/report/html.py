"""The page of an adaptation: one HTML file that needs nothing else, neither scripts nor a network."""

from tinytrain.base.page import page
from tinytrain.report.page.accuracy import answers_section
from tinytrain.report.page.arena import arena_section
from tinytrain.report.page.conclusion import conclusion, headline
from tinytrain.report.page.costs import costs_section, loss_section
from tinytrain.report.page.images import support_section
from tinytrain.report.page.network import network_section
from tinytrain.report.page.settings import input_section, settings_section
from tinytrain.report.page.thumbnails import Thumbnails


def render_html(facts: dict, thumbnails: Thumbnails | None = None) -> str:
    """The report `facts` (`Report.to_json`) as a page, with images if there are `thumbnails` of them."""
    return page(
        headline(facts),
        (
            conclusion(facts),
            answers_section(facts, thumbnails),
            support_section(facts, thumbnails),
            input_section(facts),
            network_section(facts),
            arena_section(facts),
            loss_section(facts["losses"]),
            costs_section(facts),
            settings_section(facts),
        ),
    )
