"""Elements of SVG and HTML, escaped by the standard library, and one style sheet for all pictures (light and dark)."""

from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# Two colours of each: on a light and on a dark page. Told apart by lightness too, for those who do not see the hues.
COLOURS = {
    "copy": ("#3b7dd8", "#5c9bf0"),
    "mma": ("#d9541e", "#f07b48"),
    "compute": ("#159a74", "#35bd95"),
    "exchange": ("#8a4fc9", "#b184ea"),
    "store": ("#c98b00", "#e6b23c"),
    "sync": ("#7d8590", "#8b949e"),
    "wait": ("#dcdfe4", "#343a42"),
    "free": ("#f3f4f6", "#22262c"),
}
PLAIN = """
.picture{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-size:12px}
.picture text{fill:#1f2328}.picture .card{fill:#ffffff;stroke:#d0d7de}.picture .quiet{fill:#59636e}
.picture .heading{font-weight:600;font-size:13px}.picture .small{font-size:10px}.picture .right{text-anchor:end}
.picture .centre{text-anchor:middle}.picture .on{fill:#ffffff}.picture .on-quiet{fill:#59636e}
.picture .span{fill:#7d8590}.picture .grid{stroke:#e6e9ed}.picture .rule{stroke:#d0d7de}
.picture .strong{font-weight:600}.picture .rim{stroke:#9aa4af}
.picture .edge{stroke:#ffffff;stroke-width:1}.picture .hollow{stroke:#9aa4af;stroke-dasharray:3 3}
"""
DARK = """
.picture text{fill:#e6edf3}.picture .card{fill:#15191f;stroke:#3d444d}.picture .quiet{fill:#9198a1}
.picture .on{fill:#0d1117}.picture .on-quiet{fill:#9198a1}
.picture .grid{stroke:#262c34}.picture .rule{stroke:#3d444d}
.picture .edge{stroke:#15191f}.picture .hollow{stroke:#59636e}
"""


def style_sheet() -> str:
    """The rules every picture carries, so that it reads the same alone and inside a page."""
    return f"{PLAIN}@media (prefers-color-scheme:dark){{{DARK}}}\n{colour_rules('.picture', 'fill')}"


def colour_rules(within: str, what: str) -> str:
    """`what` (fill, background) of every kind, under the selector `within`."""
    light, dark = (
        "".join(f"{within} .{kind}{{{what}:{pair[mode]}}}" for kind, pair in COLOURS.items()) for mode in (0, 1)
    )
    return f"{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n"


def element(tag: str, *children: Element | str, **attributes: Any) -> Element:
    """An element; `class_` stands for class, `stroke_width` for stroke-width. No two texts may follow one another."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): number(value) for name, value in attributes.items()})
    for child in children:
        if not isinstance(child, str):
            made.append(child)
        elif len(made):
            made[-1].tail = child
        else:
            made.text = child
    return made


def number(value: Any) -> str:
    """At most three decimals and no trailing zeros, so that equal pictures are equal text."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def label(x: float, y: float, text: str, class_: str = "") -> Element:
    """Text whose baseline is at y."""
    return element("text", text, x=x, y=y, class_=class_) if class_ else element("text", text, x=x, y=y)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Element:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, title: str = "", **more: Any) -> Element:
    """A rectangle, with a tooltip where there is a title."""
    tooltip = (element("title", title),) if title else ()
    return element("rect", *tooltip, x=x, y=y, width=width, height=height, class_=class_, **more)


def picture(width: float, height: float, title: str, *children: Element) -> Element:
    """An SVG on a card of its own, so that it can be read whatever the page behind it looks like."""
    return element(
        "svg",
        element("title", title),
        element("style", style_sheet()),
        box(0.5, 0.5, width - 1, height - 1, "card", rx=8),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(float(width))} {number(float(height))}",
        width=width,
        height=height,
        role="img",
        class_="picture",
    )


def svg_text(root: Element) -> str:
    """As a file."""
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def html_text(root: Element) -> str:
    """As an HTML page, pictures inline."""
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, encoding="unicode", method="html") + "\n"
