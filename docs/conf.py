"""How the site is built: `make docs`, or `python -m sphinx -W -b html docs docs/_build/html`."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

# Cells and examples share the cores with other cells: one BLAS thread each, set before numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import reference  # noqa: E402

import sdpkit  # noqa: E402

project = "sdpkit"
author = "The sdpkit developers"
version = release = sdpkit.__version__
project_copyright = author

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "mathjax_copy",
    "docstrings",
    "figure_numbers",
    "notebooks",
    "sheet",
    "slides",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "examples",
    "auto_examples/**.ipynb",
    "auto_examples/**.py",
    "auto_examples/**.md5",
    "auto_examples/**/sg_execution_times.rst",
    "auto_examples/sg_execution_times.rst",
    "sg_execution_times.rst",
    "jupyter_execute",
]
numfig = True

# Pages: Markdown, mathematics between dollars, cells executed at every build. Each chapter runs in
# a fresh kernel; `cache` would save time but two processes lock its database against each other.
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_ipywidgets_js = {}
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
# Cells speak through figures and stdout. An answer that was not certified is an error of its page;
# what else comes on stderr (kernels are compiled on first use) is not shown.
nb_output_stderr = "remove"
os.environ["PYTHONWARNINGS"] = ",".join(
    f"error:{status}" for status in ("inaccurate", "iteration_limit", "time_limit")
)

# MathJax with its fonts inside of the one file: no request leaves the machine.
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {"svg": {"fontCache": "global"}}

# The reference: every public name, one page each.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "py:obj"
reference.write(HERE / "reference")

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "download_all_examples": False,
    "reset_modules": ("reset_example.reset",),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "copyfile_regex": r".*GALLERY_HEADER\.rst",
    "nested_sections": True,
    # The reference page of a name lists the examples that use it.
    "doc_module": ("sdpkit",),
    "backreferences_dir": "reference/examples",
}

html_theme = "pydata_sphinx_theme"
html_title = "sdpkit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("moving.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
# Summaries of search results are fetched, which a browser refuses for pages on a disk.
html_show_search_summary = False
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "sdpkit"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc", "notebook"],
    "footer_start": ["copyright", "glossary"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# matplotlib's non-interactive canvas says so when an example calls plt.show().
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
