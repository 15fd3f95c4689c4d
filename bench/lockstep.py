"""The yardstick: six processes on the paper's graph in lock-step, bare XPUB/SUB and msgpack, no mathematics.

Run as a process: `python -m bench.lockstep AGENT ROUNDS` with the ports on standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import msgpack
import zmq

from cpgt.topologies import build_graph

PAYLOAD = bytes(16)  # as long as CPGT's own with the 2-bit quantizer at d = 10


def main(agent: int, rounds: int) -> None:
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
    print(_rounds(agent, rounds, len(ports), out, into), flush=True)
    sys.stdin.readline()
    context.destroy(linger=0)


def _rounds(
    agent: int, rounds: int, degree: int, out: zmq.Socket[bytes], into: zmq.Socket[bytes]
) -> float:
    begin, early = time.perf_counter(), 0
    for k in range(rounds):
        out.send(msgpack.packb((agent, k, PAYLOAD)))
        here, early = early, 0
        while here < degree:
            _, sent, _ = msgpack.unpackb(into.recv())
            if sent == k:
                here += 1
            else:
                early += 1
    return time.perf_counter() - begin


def measure(rounds: int) -> float:
    """Rounds per second of the bare loop."""
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

    def hear(agent: int) -> str:
        pipe = processes[agent].stdout
        assert pipe
        return pipe.readline()

    def tell(agent: int, line: str) -> None:
        pipe = processes[agent].stdin
        assert pipe
        pipe.write(line + "\n")
        pipe.flush()

    ports = {agent: int(hear(agent)) for agent in agents}
    for agent in agents:
        tell(agent, json.dumps([ports[peer] for peer in graph.neighbours(agent)]))
    for agent in agents:
        hear(agent)
    for agent in agents:
        tell(agent, "go")
    seconds = max(float(hear(agent)) for agent in agents)
    for agent, process in processes.items():
        tell(agent, "leave")
        process.communicate()
    return rounds / seconds


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
