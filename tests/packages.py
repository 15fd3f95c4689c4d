"""A package of a user with entry points, as pip installs it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

OWN_KINDS = Path(__file__).with_name("own_kinds.py")
POINTS = """[cpgt.graphs]
wheel = wheels:wheel
ring = wheels:nothing
[cpgt.weights]
even = wheels:even
[cpgt.compressors]
first-k = wheels:FirstK
[cpgt.algorithms]
slow = wheels:Slow
[cpgt.objectives]
bowl = wheels:bowl
"""


def install(folder: Path, name: str = "wheels", points: str = POINTS) -> None:
    """A package with entry points: a wheel is built and installed by pip, from the disk alone."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": OWN_KINDS.read_text(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--disable-pip-version-check", "--no-compile", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True)
