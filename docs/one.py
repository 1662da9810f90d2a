"""Execute and render one chapter alone: python docs/one.py docs/course/03_unfolding.md OUT."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main

HERE = Path(__file__).resolve().parent


def render(chapter: Path, out: Path) -> int:
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    (source / "course").mkdir(parents=True)
    for name in ("_static", "_ext", "_templates"):
        (source / name).symlink_to(HERE / name)
    shutil.copy(chapter, source / "course" / chapter.name)
    text = (HERE / "conf.py").read_text(encoding="utf-8")
    text = text.replace('    "sphinx_gallery.gen_gallery",\n', "")
    text = text.replace('reference.write(HERE / "reference")', "")
    # Links to other pages cannot be resolved here; the whole site checks them.
    text += "\nsuppress_warnings = ['myst.xref_missing', 'myst.xref_ambiguous']\n"
    (source / "conf.py").write_text(text, encoding="utf-8")
    index = f"# One chapter\n\n```{{toctree}}\ncourse/{chapter.stem}\n```\n"
    (source / "index.md").write_text(index, encoding="utf-8")
    return main(["-q", "-W", "-b", "html", str(source), str(out / "html")])


if __name__ == "__main__":
    sys.exit(render(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
