"""How the pages become a site: `make docs`. The pages stay what they are on a code host too."""

project = "hil"
extensions = ["myst_parser"]
root_doc = "docs/site/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# the whole checkout is the source, so that links between pages are those that a code host follows
include_patterns = ["README.md", "docs/*.md", "docs/site/index.rst"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "hil"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
nitpicky = True  # with -W, a link that leads nowhere ends the build
