"""The image and `docker compose up`, run with compose 2 and with compose 1, from a fresh clone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import cpgt
from cpgt.models.evaluate import evaluate_model
from cpgt.models.model_file import load_model
from cpgt.tables.encode import encode_table
from cpgt.wire.sizes import zmtp_size
from tests.system.compose import AGENTS, UP, VERSIONS, Compose, fresh_clone, need
from tests.system.conftest import Commands, rounds_written, rows_of, summary_of, until

pytestmark = pytest.mark.timeout(300)  # the first test builds the image
PAPER = Path("cpgt/networks/paper-c2-1.toml")
HELD_OUT = Path(cpgt.__file__).parent / "networks/hospitals/held-out.csv"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(["docker", "info"], "Docker engine")
    return fresh_clone(tmp_path_factory.mktemp("docker"))


@pytest.fixture(params=["2", "1"])
def compose(request: pytest.FixtureRequest, clone: Path) -> Iterator[Compose]:
    need([*VERSIONS[request.param], "version"], f"docker compose {request.param}")
    compose = Compose(request.param, clone)
    try:
        yield compose
    finally:
        compose.down()
    assert not compose.containers(), "containers left behind"


@pytest.fixture(scope="module")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network and seed as processes on this machine."""
    commands = Commands(tmp_path_factory.mktemp("localhost"))
    done = commands.run("run", "paper", "--seed", "5", "--no-compare", "--out", "run")
    assert done.returncode == 0, done.stderr
    return commands.folder / "run"


def test_the_papers_network_in_containers_equals_localhost(
    compose: Compose, localhost: Path
) -> None:
    before = compose.results()
    code, printed = compose.up(AGENT_OPTIONS="--seed 5")
    assert code == 0, printed
    (out,) = compose.results() - before  # every run makes a new folder
    assert f"files: runs/{out.name}" in printed
    assert "bytes a round, all 16 edges" in printed
    assert "NOT PRIVATE: a seed was given" in compose.logs("agent-1")
    here, there = summary_of(localhost), summary_of(out)
    assert there["status"] == "completed"
    assert there["residual"]["disagreement"] < 1e-7
    assert there["residual"] == here["residual"]
    assert [row[:5] for row in rows_of(out)] == [row[:5] for row in rows_of(localhost)]
    assert all(zmtp == zmtp_size(message, curve=True) for *_, message, zmtp in rows_of(out))
    assert there["bytes"]["total"]["payload"] == here["bytes"]["total"]["payload"]
    assert "kernel's byte counts: equal to handshake + frames on 16 of 16 edges" in printed
    _check_isolation(compose)


def _check_isolation(compose: Compose) -> None:
    """Check the restrictions of each container, as the engine reports them."""
    containers = compose.containers()
    assert set(containers) == {"setup", "coordinator", *(f"agent-{agent}" for agent in AGENTS)}
    assert compose.network()["Internal"]
    assert containers.pop("setup")["HostConfig"]["NetworkMode"] == "none"
    for name, container in containers.items():
        host = container["HostConfig"]
        assert container["State"]["ExitCode"] == 0
        assert container["Config"]["User"].split(":")[0] not in ("", "0", "root")
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert host["CapAdd"] is None
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["RestartPolicy"]["Name"] in ("", "no")
        assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (2**30, 10**9, 64)
        assert container["Config"]["Healthcheck"]["Test"]
        assert not host["PortBindings"]
        mounts = [mount for mount in container["Mounts"] if mount["Type"] == "bind"]
        seen = {mount["Source"]: mount["RW"] for mount in mounts}
        private = compose.clone / "private/paper" / name.removeprefix("agent-")
        own = {str(private): name != "coordinator"}
        assert seen == own | ({str(compose.clone / "runs"): True} if name == "coordinator" else {})


@pytest.mark.parametrize("compose", ["2"], indirect=True)
def test_an_agent_sees_its_own_folder_alone(compose: Compose) -> None:
    assert compose.run("up", "setup")[0] == 0
    private = compose.clone / "private/paper"
    sums = {agent: _sum(private / str(agent) / "data.npz") for agent in AGENTS}
    assert len(set(sums.values())) == len(sums)
    search = "find / -name data.npz -o -name '*.key' 2>/dev/null | sort; sha256sum data.npz"
    found = compose.inside("agent-2", search)
    assert found[-3:] == ["/private/data.npz", "/private/private.key", f"{sums[2]}  data.npz"]
    assert not any("private" in line for line in found[:-3])
    assert "Read-only file system" in compose.inside("agent-2", "touch /opt/x 2>&1 || true")[-1]
    tools = compose.inside("agent-2", "command -v gcc cc c++ make git || echo no tools")
    assert tools[-1] == "no tools"
    for party in ("coordinator", *map(str, AGENTS)):
        assert (private / party).stat().st_mode & 0o777 == 0o700
        files = [path for path in (private / party).iterdir() if path.is_file()]
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_killed_container_ends_the_run_and_is_named(compose: Compose) -> None:
    paper = (compose.clone / PAPER).read_text()
    long = paper.replace("rounds = 3000", "rounds = 10_000_000\npatience = 4")
    (compose.clone / "long.toml").write_text(long)
    before = compose.results()

    def in_progress() -> bool:
        return any(map(rounds_written, compose.results() - before))

    def stopped() -> bool:
        return not any(one["State"]["Running"] for one in compose.containers().values())

    up = compose.start(*UP, NETWORK="long.toml")
    try:
        until(in_progress, 120, "rounds between containers")
        compose.kill("agent-3")
        up.communicate(timeout=60)
    finally:
        up.kill()
    (out,) = compose.results() - before
    until(stopped, 20, "all containers to stop")
    codes = {name: one["State"]["ExitCode"] for name, one in compose.containers().items()}
    assert codes.pop("setup") == 0
    assert codes.pop("agent-3") == 137
    assert set(codes.values()) == {3} == {up.returncode}
    summary = summary_of(out)
    assert summary["status"] == "failed"
    assert summary["error"].startswith("agent 3 has been silent for 4 s in round ")
    assert f"Error: {summary['error']}" in compose.logs("coordinator")
    assert "stopped by the coordinator: agent 3" in compose.logs("agent-2")
    assert rows_of(out), "the counts are kept"


@pytest.mark.parametrize("compose", ["2"], indirect=True)
def test_another_network_and_its_mistakes(compose: Compose) -> None:
    ring = (compose.clone / "cpgt/networks/ridge.toml").read_text()
    (compose.clone / "five.toml").write_text(ring.replace("agents = 6", "agents = 5"))
    code, _ = compose.up(NETWORK="five.toml")
    assert code != 0
    words = "Error: network five.toml has 5 agents, and docker-compose.yml has 6"
    assert words in compose.logs("setup")
    (compose.clone / "short.toml").write_text(ring.replace("rounds = 400", "rounds = 50"))
    before = compose.results()
    code, printed = compose.up(NETWORK="short.toml")
    assert code == 0, printed
    assert "ridge: 6 agents, d = 10, 50 rounds" in printed
    (out,) = compose.results() - before
    assert summary_of(out)["network"]["objective"]["kind"] == "ridge"
    data = compose.clone / "private/short.toml/4/data.npz"
    data.write_bytes(b"a user's file")
    code, _ = compose.up(NETWORK="short.toml")
    assert code != 0
    words = "private/short.toml/4/data.npz is not the data of short.toml"
    assert words in compose.logs("setup")
    assert data.read_bytes() == b"a user's file"
    data.unlink()


@pytest.mark.parametrize("compose", ["2"], indirect=True)
def test_the_hospitals_in_containers(compose: Compose) -> None:
    before = compose.results()
    code, printed = compose.up(NETWORK="hospitals")
    assert code == 0, printed
    (out,) = compose.results() - before
    assert "epsilon 3, delta 1e-05" in printed
    model = load_model(out)
    assert model.table
    held_out = encode_table(model.table, HELD_OUT)
    assert (evaluate_model(model, held_out).metrics["accuracy"] or 0.0) > 0.88
    own = compose.clone / "private/hospitals/3"
    shipped = HELD_OUT.with_name("hospital-3.csv")
    assert (own / "data.csv").read_bytes() == shipped.read_bytes()
    assert len(list(own.glob("runs/*/model.json"))) == 1
