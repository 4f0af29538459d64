"""Settings of the documentation: `make docs` builds the site in `build/site`.

Pages are read from the root of the repository, so that links between `README.md`, `docs/`,
`notebooks/` and `benchmarks/` are the same on the site as in the repository.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]


from manifold_shap import __version__  # noqa: E402

project = "manifold_shap"
author = "The manifold_shap developers"
copyright = f"2026, {author}"
version = release = __version__

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/api/**.rst",
    "docs/gallery/**.rst",
    "docs/results/*.md",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
]
exclude_patterns = [".*", "build", "runs", "tests", "manifold_shap"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx_parts",
]

myst_enable_extensions = ["dollarmath", "colon_fence", "html_image", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # `make notebooks` executes them
nb_merge_streams = True

autosummary_generate = True
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints = "none"
autodoc_preserve_defaults = True
default_role = "code"  # what stands in backticks in a docstring is code
napoleon_numpy_docstring = False
napoleon_attr_annotations = False  # shapes are in the text
napoleon_use_rtype = False
templates_path = ["docs/_templates"]

html_math_renderer = "mathml"  # of `sphinx_parts`: a page needs no script from elsewhere
html_theme = "furo"
html_title = "manifold_shap"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]  # `index.html` of the whole site
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "docs/examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"manifold_shap\.plots\.(canvas|simplex)|matplotlib|list|tuple",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,  # a page at the root of the repository
    "plot_gallery": "True",
}
