"""How Sphinx builds these pages: ``make docs``; offline, warnings are errors."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # gallery_settings

project = "tecu"
author = "The tecu developers"
copyright = "2026, The tecu developers"  # the name that Sphinx wants
version = release = installed("tecu")

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
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

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    # What is ignored is no example.
    "ignore_pattern": r"(side_by_side|opponents|choosing|demo)\.py$",
    "reset_argv": "gallery_settings.quick",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "notebook_extensions": set(),  # a notebook alone would miss the modules that the examples share
    "default_thumb_file": str(HERE / "picture.png"),
}
suppress_warnings = ["config.cache"]  # the gallery keeps functions among its settings

html_theme = "alabaster"
html_theme_options = {
    "description": "Block optimisation with any solver or network inside a block, and a checked certificate",
    "fixed_sidebar": True,
    "page_width": "72rem",
    "body_max_width": "56rem",
    "font_family": "system-ui, sans-serif",
    "head_font_family": "system-ui, sans-serif",
    "font_size": "16px",
    "code_font_size": "14px",
}
html_show_sourcelink = False
html_copy_source = False
