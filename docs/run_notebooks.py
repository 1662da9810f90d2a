"""Execute downloaded chapters as Jupyter would: python docs/run_notebooks.py FOLDER.

Folders inside are included.

Needs nbclient and ipykernel beside `sdpkit[plot]`; nothing of what builds the site.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

# Two kernels run at once. With a BLAS thread for every core in each of them, threads would wait for
# one another; a lone notebook in Jupyter keeps its default.
AT_ONCE = 2
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // AT_ONCE)))


def run(path: Path) -> tuple[bool, str]:
    """One notebook in a folder of its own: whether it ran to its end, and a line about it."""
    notebook = nbformat.read(path, as_version=4)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources)
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError) as error:
            return False, f"{path.parent.name}/{path.name} failed:\n{error}"
    seconds = time.monotonic() - begin
    return True, f"{path.parent.name}/{path.name}: {len(notebook.cells)} cells in {seconds:.0f} s"


if __name__ == "__main__":
    found = sorted(Path(sys.argv[1]).rglob("*.ipynb"))
    if not found:
        sys.exit(f"there are no notebooks in {sys.argv[1]}: run 'make docs' first")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = 0
        for ran, line in pool.map(run, found):
            failed += not ran
            print(line, flush=True)
    if failed:
        sys.exit(f"{failed} of {len(found)} notebooks failed")
