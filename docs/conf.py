"""How Sphinx builds the site; `python tools/build_docs.py` is the command."""

from flambeau._version import __version__

project = "flambeau"
author = copyright = "the flambeau authors"
version = release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["made", "pictures"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True
smartquotes = False

html_theme = "furo"
html_title = "flambeau"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#a2410b", "color-brand-content": "#a2410b"},
    "dark_css_variables": {"color-brand-primary": "#f59a5c", "color-brand-content": "#f59a5c"},
    "navigation_with_keys": True,
}
pygments_style, pygments_dark_style = "friendly", "monokai"
