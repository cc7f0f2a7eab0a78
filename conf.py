"""Sphinx configuration. The repository root is the source folder of the book."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Hopper's wgmma, by running it"
author = "The authors of the book"
project_copyright = "the authors of the book. Code: MIT. Prose and figures: CC BY 4.0"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_exercise",
    "sphinxcontrib.bibtex",
    "extension",
]

# Only prose is a page: everything else in the root is code, data or a build product.
exclude_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    ".*",
    "_build",
    "_static",
    "_templates",
    "extension",
    "hopper",
    "jupyter_execute",
    "kernels",
    "node_modules",
    "results",
    "tests",
    "**/.ipynb_checkpoints",
    "**/__pycache__",
    "*.egg-info",
]

# -- Notebooks ---------------------------------------------------------------------------------
# A page is executed whenever it is read; `extension.freshness` decides when it must be read
# again. The cache mode of MyST-NB is not used: its key leaves out kernels and helpers.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 240  # seconds for one cell
nb_execution_in_temp = False
nb_merge_streams = True

myst_enable_extensions = [
    "amsmath",
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
]
myst_heading_anchors = 3
myst_links_external_new_tab = False

nitpicky = True

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "label"

# -- HTML --------------------------------------------------------------------------------------
html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["palette.css", "book.css"]  # palette.css: python -m hopper.figures
html_js_files = [("book.js", {"defer": "defer"})]
html_context = {"default_mode": "auto"}
html_favicon = "_static/favicon.svg"
html_last_updated_fmt = None  # a date would make two builds of one commit differ
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo-dark.svg",
        "alt_text": "wgmma, an executable book: home",
    },
    "use_download_button": False,  # the downloads of a chapter are links at its top
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "navbar_persistent": [],  # the sidebar and the article header already have a search button
    "show_navbar_depth": 2,
    "back_to_top_button": False,
    "footer_content_items": ["copyright.html"],
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search the book",
}

# MathJax is shipped, so that formulas are set without a network and from a folder on disk.
mathjax_path = "vendor/mathjax/tex-chtml.js"
mathjax3_config = {
    "options": {"enableMenu": False},  # its menu loads files that are not shipped
    "chtml": {"displayAlign": "left"},
}

copybutton_exclude = ".linenos, .gp, .go"
