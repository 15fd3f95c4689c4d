"""The public API: what `import cpgt` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cpgt
from cpgt import api


def test_the_package_offers_the_api() -> None:
    assert cpgt.__all__ == api.__all__
    for name in api.__all__:
        assert getattr(cpgt, name) is getattr(api, name)
        assert f"| `{name}" in (api.__doc__ or ""), f"{name} is not documented"
    assert "paper" in cpgt.shipped_networks()
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = cpgt.walk


def test_the_api_is_loaded_when_it_is_used() -> None:
    code = "import sys, cpgt; print(sorted(name for name in sys.modules if 'cpgt' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cpgt.api" not in done.stdout and "cpgt.agent" not in done.stdout
