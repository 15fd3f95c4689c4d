"""Objectives: their gradients, how they are found by name, and every error message."""

import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpgt.agent.errors import CodeError, InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import Idle, build_objective, find_factory
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.extensions import allow
from tests.agent.problems import Array

RNG = np.random.default_rng(1)
A, B = RNG.standard_normal((6, 4)), RNG.standard_normal(6)


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1 / 36, 3.0])
def test_the_gradient_of_least_squares_is_the_slope_of_its_cost(scale: float) -> None:
    """Central differences of a quadratic are exact but for rounding."""

    def cost(x: Array) -> float:
        return float(scale * np.sum((A @ x - B) ** 2))

    gradient = LeastSquares(A, B, scale).gradient
    for x in RNG.standard_normal((5, 4)):
        slope = [(cost(x + h) - cost(x - h)) / 2e-3 for h in 1e-3 * np.eye(4)]
        assert gradient(x) == pytest.approx(slope, rel=1e-8, abs=1e-8)


def test_the_scale_is_1_unless_given() -> None:
    x = np.ones(4)
    assert np.array_equal(LeastSquares(A, B).gradient(x), LeastSquares(A, B, 1.0).gradient(x))
    assert LeastSquares(A, B).dimension == 4


@pytest.mark.parametrize(
    "objective", [LeastSquares(A, B, 0.5), Idle(4)], ids=["least-squares", "idle"]
)
def test_leading_axes_hold_independent_points(objective: Objective) -> None:
    points = RNG.standard_normal((3, 2, 4))
    together = objective.gradient(points)
    assert together.shape == (3, 2, 4)
    for place in np.ndindex(3, 2):
        assert together[place] == pytest.approx(
            objective.gradient(points[place]), rel=1e-13, abs=1e-13
        )


def test_a_gradient_leaves_its_point_as_it_is() -> None:
    x = np.ones((2, 4))
    LeastSquares(A, B).gradient(x)
    assert np.array_equal(x, np.ones((2, 4)))


def test_idle_has_no_slope_and_needs_no_data() -> None:
    idle = build_objective("idle", {"dimension": 3}, {})
    assert idle.dimension == 3
    assert np.array_equal(idle.gradient(np.ones((2, 3))), np.zeros((2, 3)))


# --- found by name --------------------------------------------------------------------------------


def test_least_squares_by_name_takes_numbers_of_any_kind() -> None:
    whole = {"A": np.array([[1, 2], [3, 4]]), "b": np.array([True, False])}
    objective = build_objective("least-squares", {"scale": 0.5}, whole)
    assert objective.gradient(np.zeros(2)) == pytest.approx([-1.0, -2.0])


MakeModule = Callable[[str], str]


@pytest.fixture
def make_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> MakeModule:
    """Put Python code where it can be imported; gives the module's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "own_" + re.sub(r"\W", "_", request.node.name)

    def make(code: str) -> str:
        (tmp_path / f"{name}.py").write_text(code)
        return name

    return make


RIDGE = """
class Ridge:
    def __init__(self, center, weight):
        self.dimension, self.center, self.weight = len(center), center, weight

    def gradient(self, x):
        return self.weight * (x - self.center)

def factory(data, weight=2.0):
    return Ridge(data["center"], weight)

number = 7

def without(data):
    return object()

def wrong_shape(data):
    ridge = Ridge(data["center"], 1.0)
    ridge.gradient = lambda x: x[:2]
    return ridge

def number_gradient(data):
    ridge = Ridge(data["center"], 1.0)
    ridge.gradient = lambda x: 0.0
    return ridge
"""
CENTER = {"center": np.array([1.0, 2.0, 3.0])}


@pytest.mark.parametrize(("options", "weight"), [({}, 2.0), ({"weight": 5.0}, 5.0)])
def test_your_own_objective(
    make_module: MakeModule, options: dict[str, Any], weight: float
) -> None:
    kind = f"{make_module(RIDGE)}:factory"
    allow([kind])
    objective = build_objective(kind, options, CENTER)
    assert objective.dimension == 3
    assert objective.gradient(np.zeros(3)) == pytest.approx(-weight * CENTER["center"])


@pytest.mark.parametrize(
    ("attribute", "options", "complaint"),
    [
        ("missing", {}, "cannot be loaded: module '{module}' has no attribute 'missing'"),
        ("", {}, "cannot be loaded"),
        ("number", {}, "objective.kind = '{module}:number' is not a function"),
        (
            "without",
            {},
            "objective '{module}:without': its result has no `dimension` or no `gradient(x)`",
        ),
        (
            "wrong_shape",
            {},
            "objective '{module}:wrong_shape': the gradient has shape (2,), not (3,)",
        ),
        (
            "number_gradient",
            {},
            "objective '{module}:number_gradient': the gradient has shape (), not (3,)",
        ),
        (
            "factory",
            {"wait": 1},
            "objective '{module}:factory': got an unexpected keyword argument 'wait'",
        ),
    ],
)
def test_an_objective_of_your_own_that_cannot_be_used(
    make_module: MakeModule, attribute: str, options: dict[str, Any], complaint: str
) -> None:
    module = make_module(RIDGE)
    allow([f"{module}:{attribute}"])
    with pytest.raises(InputError, match=re.escape(complaint.format(module=module))):
        build_objective(f"{module}:{attribute}", options, CENTER)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("no_such_module:factory", "cannot be loaded: No module named 'no_such_module'"),
        (
            "cpgt.agent.no_such_module:factory",
            "cannot be loaded: No module named 'cpgt.agent.no_such_module'",
        ),
        (":factory", "cannot be loaded"),
        (".relative:factory", "objective.kind = '.relative:factory' cannot be loaded"),
        ("builtins:dict", "'builtins:dict'"),
        ("magic", "'magic' is not known; there are least-squares, ridge, huber, "),
    ],
)
def test_an_unknown_kind(kind: str, complaint: str) -> None:
    allow([kind])
    with pytest.raises(InputError, match=re.escape(complaint)):
        build_objective(kind, {}, {})


COMPLAINT = """from cpgt.agent.errors import InputError
def factory(data):
    raise InputError('patient 4711')
"""


@pytest.mark.parametrize("text", ["raise ValueError('patient 4711')", COMPLAINT])
def test_errors_of_user_code_are_not_reported(make_module: MakeModule, text: str) -> None:
    kind = f"{make_module(text)}:factory"
    allow([kind])
    with pytest.raises(CodeError, match="patient 4711") as caught:
        build_objective(kind, {}, {})
    assert caught.value.public_message == "its code cannot be used; its own log says why"


def test_errors_in_public_options_are_reported() -> None:
    with pytest.raises(InputError) as caught:
        build_objective("ridge", {"l2": -1.0}, {})
    assert caught.value.public_message == "objective.l2 must be positive, not -1.0"


def test_code_that_cannot_be_imported_is_named(make_module: MakeModule) -> None:
    module = make_module("def factory(data) return 1")
    allow([f"{module}:factory"])
    with pytest.raises(InputError, match=f"'{module}:factory' cannot be loaded"):
        find_factory(f"{module}:factory")


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (
            "least-squares",
            {"skale": 1.0},
            "objective 'least-squares': got an unexpected keyword argument 'skale'",
        ),
        ("idle", {}, "objective 'idle': missing a required argument: 'dimension'"),
    ],
)
def test_options_that_do_not_fit(kind: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        build_objective(kind, options, {"A": A, "b": B})


# --- the arrays of least squares ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "needs an array 'A' in the data file; it has none (was --data given?)"),
        ({"A": A}, "needs an array 'b' in the data file; it has 'A'"),
        ({"a": A, "b": B}, "needs an array 'A' in the data file; it has 'a', 'b'"),
        ({"A": A, "b": B[:5]}, "needs A of shape (m, d) and b of shape (m,), not (6, 4), (5,)"),
        ({"A": A, "b": B[:, None]}, "not (6, 4), (6, 1)"),
        ({"A": A[:, 0], "b": B}, "not (6,), (6,)"),
        ({"A": A[None], "b": B[None]}, "not (1, 6, 4), (1, 6)"),
        ({"A": np.array(1.0), "b": np.array(1.0)}, "not (), ()"),
        ({"A": np.array([["1", "x"]]), "b": np.array([1.0])}, "least-squares"),
        ({"A": A[:, :0], "b": B}, "(6, 0)"),
    ],
)
def test_arrays_that_do_not_fit(data: Mapping[str, Array], complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        build_objective("least-squares", {}, data)


@pytest.mark.parametrize("dimension", [0, -1])
def test_idle_in_no_dimension(dimension: int) -> None:
    with pytest.raises(InputError, match="dimension"):
        build_objective("idle", {"dimension": dimension}, {})


# --- the data file --------------------------------------------------------------------------------


def test_no_file_is_no_data() -> None:
    assert load_data(None) == {}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_gives_its_arrays(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "data.npz", A=A, names=np.array(["x", "y"]))
    data = load_data(tmp_path / "data.npz")
    assert set(data) == {"A", "names"}
    assert np.array_equal(data["A"], A)
    assert data["names"].tolist() == ["x", "y"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.npz"
    with pytest.raises(InputError, match=re.escape(f"data file {path}: there is no such file")):
        load_data(path)


def _text(path: Path) -> None:
    path.write_text("A = 1")


def _nothing(path: Path) -> None:
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.mkdir()


def _half(path: Path) -> None:
    np.savez(path, A=A, b=B)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _flipped_byte(path: Path) -> None:
    np.savez(path, A=A)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _broken_compression(path: Path) -> None:
    np.savez_compressed(path, A=np.random.default_rng(2).standard_normal((30, 30)))
    content = bytearray(path.read_bytes())
    content[60:110] = b"\xff" * 50
    path.write_bytes(content)


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"A": A}))


def _pickled_array(path: Path) -> None:
    np.savez(path, A=np.array([{"secret": 1}, None], dtype=object))


def _single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, A)


def _zip_of_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "A = 1")


BAD_FILES = [
    _text,
    _nothing,
    _folder,
    _half,
    _flipped_byte,
    _broken_compression,
    _pickle,
    _pickled_array,
    _single_array,
    _zip_of_text,
]


@pytest.mark.parametrize("write", BAD_FILES, ids=lambda write: write.__name__.strip("_"))
def test_a_malformed_file_is_named(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "data.npz"
    write(path)
    with pytest.raises(
        InputError, match=re.escape(f"data file {path}: not an .npz file of plain arrays")
    ):
        load_data(path)


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return _explode, ("unpickled",)


EXPLOSIONS: list[str] = []


def _explode(how: str) -> None:
    EXPLOSIONS.append(how)


def test_a_pickle_in_a_file_is_never_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb()))
    assert EXPLOSIONS == ["unpickled"]  # so it would be noticed
    np.savez(tmp_path / "1.npz", A=np.array([Bomb()], dtype=object))
    (tmp_path / "2.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("1.npz", "2.npz"):
        with pytest.raises(InputError):
            load_data(tmp_path / name)
    assert EXPLOSIONS == ["unpickled"]


@pytest.mark.parametrize(
    ("array", "place"),
    [
        (np.array([1.0, np.nan]), "A[1] is nan"),
        (np.array([[1.0, 2.0], [-np.inf, np.nan]]), "A[1, 0] is -inf"),
        (np.array([[1.0, 2.0], [3.0, np.inf]], dtype=np.float32), "A[1, 1] is inf"),
        (np.array([1.0, complex(0, np.nan)]), "A[1] is nanj"),
    ],
)
def test_data_that_is_not_finite_is_refused_with_its_place(
    tmp_path: Path, array: Array, place: str
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, fine=np.ones(3), A=array)
    with pytest.raises(
        InputError, match=re.escape(f"data file {path}: {place}; clean the data first")
    ):
        load_data(path)


def test_complex_data_is_not_silently_cut() -> None:
    with pytest.raises(InputError, match="complex"):
        build_objective("least-squares", {}, {"A": A.astype(complex), "b": B})


def test_a_reused_gradient_buffer_is_refused(make_module: MakeModule) -> None:
    """The algorithm keeps the last gradient. An overwritten one would cancel itself silently."""
    module = make_module(
        "import numpy as np\n"
        "class Reusing:\n"
        "    dimension = 3\n"
        "    def __init__(self): self.buffer = np.zeros(3)\n"
        "    def gradient(self, x):\n"
        "        self.buffer[:] = x\n"
        "        return self.buffer\n"
        "def factory(data): return Reusing()\n"
    )
    allow([f"{module}:factory"])
    with pytest.raises(InputError, match="the gradient must be a new numpy array each time"):
        build_objective(f"{module}:factory", {}, {})
