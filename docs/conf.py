"""How Sphinx builds these pages: ``make docs``; offline, warnings are errors."""

from importlib.metadata import version as installed

project = "tecu"
author = "The tecu developers"
copyright = "2026, The tecu developers"  # the name that Sphinx wants
version = release = installed("tecu")

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "literal"
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
myst_heading_anchors = 3

html_theme = "alabaster"
html_theme_options = {
    "description": "Block optimisation with any solver or network inside a block, and a checked certificate",
    "fixed_sidebar": True,
    "page_width": "84rem",
    "body_max_width": "64rem",
    "font_family": "system-ui, sans-serif",
    "head_font_family": "system-ui, sans-serif",
    "font_size": "16px",
    "code_font_size": "14px",
}
html_show_sourcelink = False
html_copy_source = False
