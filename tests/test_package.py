"""The package as it is installed: what a person's own script gets from `import regard`, wherever that script lies."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import regard
from regard.commands.doctor import EXTRAS

ROOT = Path(__file__).parents[1]


def test_a_script_beside_the_clone_imports_the_package_not_an_empty_folder(tmp_path: Path) -> None:
    """A clone is a folder called `regard` without `__init__.py`: beside a script, Python would take it for an empty package."""
    (tmp_path / "regard" / "docs").mkdir(parents=True)
    (tmp_path / "mine.py").write_text("import regard\nprint(regard.__file__)\nregard.load\n")
    ran = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()) == Path(regard.__file__)


def test_the_package_lies_where_no_clone_hides_it() -> None:
    assert Path(regard.__file__).parent.parent.name in ("src", "site-packages")


def test_every_extra_is_used_and_told_by_the_doctor() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(declared) - {"dev"} == set(EXTRAS)
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    for extra, packages in declared.items():
        for package in [] if extra in ("dev", "ray") else packages:  # Ray calls us: regard.BatchPredictor
            name = re.split(r"[^\w-]", package)[0].replace("-", "_")
            imported = rf"^\s*(import|from) {name}\b|import_module\(\"{name}\"\)"
            assert re.search(imported, code, re.MULTILINE), f"nothing imports {name}"


def test_every_file_that_is_no_code_is_packaged() -> None:
    """Rows of the built-in corpora, recipes, pages: a wheel has what a package-data pattern names, and nothing else."""
    package = ROOT / "src" / "regard"
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]["regard"]
    named = {path for pattern in patterns for path in package.glob(pattern)}
    others = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others <= named, sorted(others - named)
    assert all(any(package.glob(pattern)) for pattern in patterns)
