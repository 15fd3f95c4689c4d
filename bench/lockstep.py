"""The reference for speed: six processes on the paper's graph exchange messages in lock-step.

They use bare XPUB/SUB and msgpack, without mathematics, with the scheduler and memory settings of
our agents: what is compared is the work of a round. `python -m bench.lockstep AGENT ROUNDS` is one
of the processes; it reads the ports of its neighbours from standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import NamedTuple

import msgpack
import zmq

from cpgt.agent.tuning import tune_process
from cpgt.topologies import build_graph

PAYLOAD = bytes(16)  # as long as a payload of CPGT with the 2-bit quantizer at d = 10


class Lockstep(NamedTuple):
    speed: float  # rounds per second
    cpu: float  # seconds a round, all processes together


def main(agent: int, rounds: int) -> None:
    tune_process(shared_machine=True)
    context = zmq.Context[zmq.Socket[bytes]]()
    out, into = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    out.set(zmq.XPUB_VERBOSE, 1)
    into.subscribe(b"")
    print(out.bind_to_random_port("tcp://127.0.0.1"), flush=True)
    ports = json.loads(sys.stdin.readline())
    for port in ports:
        into.connect(f"tcp://127.0.0.1:{port}")
    for _ in ports:
        out.recv()
    print("ready", flush=True)
    sys.stdin.readline()
    used = time.process_time()
    seconds = _rounds(agent, rounds, len(ports), out, into)
    print(seconds, time.process_time() - used, flush=True)
    sys.stdin.readline()
    context.destroy(linger=0)


def _rounds(
    agent: int, rounds: int, degree: int, out: zmq.Socket[bytes], into: zmq.Socket[bytes]
) -> float:
    begin = time.perf_counter()
    early = 0  # messages of the next round: a neighbour can be one round ahead
    for k in range(rounds):
        out.send(msgpack.packb((agent, k, PAYLOAD)))
        received, early = early, 0
        while received < degree:
            _, sent, _ = msgpack.unpackb(into.recv())
            if sent == k:
                received += 1
            else:
                early += 1
    return time.perf_counter() - begin


def measure_lockstep(rounds: int) -> Lockstep:
    graph = build_graph("paper")
    agents = range(1, graph.agents + 1)
    processes = {
        agent: subprocess.Popen(
            [sys.executable, "-m", "bench.lockstep", str(agent), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for agent in agents
    }

    def read(agent: int) -> str:
        pipe = processes[agent].stdout
        assert pipe
        return pipe.readline()

    def write(agent: int, line: str) -> None:
        pipe = processes[agent].stdin
        assert pipe
        pipe.write(line + "\n")
        pipe.flush()

    ports = {agent: int(read(agent)) for agent in agents}
    for agent in agents:
        write(agent, json.dumps([ports[peer] for peer in graph.neighbours(agent)]))
    for agent in agents:
        read(agent)
    for agent in agents:
        write(agent, "go")
    times = [[float(word) for word in read(agent).split()] for agent in agents]
    for agent, process in processes.items():
        write(agent, "leave")
        process.communicate()
    return Lockstep(rounds / max(took for took, _ in times), sum(cpu for _, cpu in times) / rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
