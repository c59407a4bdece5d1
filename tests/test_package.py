"""The package as it is installed: what a person's own script gets from `import regard`, wherever that script lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import regard


def test_a_script_beside_the_clone_imports_the_package_not_an_empty_folder(tmp_path: Path) -> None:
    """A clone is a folder called `regard` without `__init__.py`: beside a script, Python would take it for an empty package."""
    (tmp_path / "regard" / "docs").mkdir(parents=True)
    (tmp_path / "mine.py").write_text("import regard\nprint(regard.__file__)\nregard.load\n")
    ran = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()) == Path(regard.__file__)


def test_the_package_lies_where_no_clone_hides_it() -> None:
    assert Path(regard.__file__).parent.parent.name in ("src", "site-packages")
