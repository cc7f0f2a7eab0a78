"""The one palette of the book: every figure and quoted code takes its colours from here.

A colour is a CSS variable with the light value as fallback, `var(--wb-ink,#1d2430)`. The site
defines the variables for both of its themes (`_static/palette.css`, written by
`python -m hopper.figures`), so one drawing serves light and dark. JupyterLab knows none
of them: there the fallbacks hold, and `dark_jupyter_style` supplies the dark values.

Fills come in pairs: `accent` is dark enough for text and outlines, `accent-soft` is the fill that
`ink` is legible on. tests/test_figures.py computes the contrasts.
"""

from __future__ import annotations

#: name -> (light, dark). Every light value is unique: plots.py maps matplotlib's hex back to names.
COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#fbfcfe", "#161b24"),
    "panel": ("#eef2f7", "#232b38"),
    "line": ("#bcc6d4", "#4a566a"),
    "ink": ("#1d2430", "#e8edf5"),
    "muted": ("#525f73", "#a9b5c7"),
    "accent": ("#1b63bd", "#74b3ff"),
    "accent-soft": ("#d5e5fa", "#1e3b60"),
    "warm": ("#a84b05", "#ffb173"),
    "warm-soft": ("#fde5cf", "#4f3219"),
    "leaf": ("#17704a", "#73d8a5"),
    "leaf-soft": ("#d3eee0", "#18412f"),
    "plum": ("#7440ac", "#caa6f6"),
    "plum-soft": ("#e9def9", "#3b2b57"),
    "peer": ("#66727f", "#97a4b6"),
    "peer-soft": ("#dfe4ea", "#343e4d"),
    "code-paper": ("#f6f8fb", "#12161e"),
    "code-keyword": ("#7a2f9e", "#d3a6ff"),
    "code-type": ("#0b5a8a", "#7cc4ff"),
    "code-name": ("#1450a3", "#9cc2ff"),
    "code-string": ("#1f6b35", "#8fdc9f"),
    "code-number": ("#9a3e00", "#ffb27a"),
    "code-comment": ("#5a6472", "#9eabbd"),
    "code-macro": ("#8a2155", "#ff9fc6"),
    "add": ("#dcf3e2", "#163624"),
    "add-ink": ("#0e4a26", "#a9ecc0"),
    "remove": ("#fbe1e0", "#451d20"),
    "remove-ink": ("#7c1519", "#ffbdbb"),
}

FONT = (
    "var(--wb-font,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','DejaVu Sans',"
    "sans-serif)"
)


def colour(name: str) -> str:
    """CSS for a palette entry: `colour("ink")` -> `var(--wb-ink,#1d2430)`."""
    return f"var(--wb-{name},{COLOURS[name][0]})"


def light(name: str) -> str:
    """The light value alone, for a drawing library that wants a hex colour."""
    return COLOURS[name][0]


def with_variables(svg: str) -> str:
    """Replace every light palette value in `svg` by its variable with fallback."""
    for name, (value, _) in COLOURS.items():
        svg = svg.replace(value, colour(name))
    return svg


def _declarations(index: int, separator: str) -> str:
    return separator.join(f"--wb-{name}:{pair[index]};" for name, pair in COLOURS.items())


def dark_jupyter_style(selector: str) -> str:
    """A `<style>` element giving `selector` the dark values under a dark JupyterLab theme."""
    rules = _declarations(1, "")
    return f'<style>[data-jp-theme-light="false"] {selector}{{{rules}}}</style>'


def dark_media_rule() -> str:
    """Dark values for a stand-alone SVG file, which has only the system's preference to go by."""
    return f"@media (prefers-color-scheme:dark){{svg{{{_declarations(1, '')}}}}}"


def stylesheet() -> str:
    """The text of `_static/palette.css`."""
    return (
        "/* Written by `python -m hopper.figures`; edit hopper/figures/palette.py. */\n"
        f":root {{\n  {_declarations(0, chr(10) + '  ')}\n}}\n"
        f'html[data-theme="dark"] {{\n  {_declarations(1, chr(10) + "  ")}\n}}\n'
        "/* The theme puts HTML output on a light card in dark mode; ours has dark colours. */\n"
        'html[data-theme="dark"] .bd-content div.cell_output '
        ".text_html.text_html:has(.wb-figure, .wb-code) {\n"
        "  background: transparent;\n  color: inherit;\n  padding: 0;\n}\n"
    )


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two `#rrggbb` colours, 1 to 21 (WCAG 2.2, relative luminance)."""

    def luminance(value: str) -> float:
        channels = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
