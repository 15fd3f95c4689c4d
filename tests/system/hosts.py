"""Several hosts on one machine: network namespaces on a switch, each with a separate address.

The machine's own network is not changed. Needs root and iproute2.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil
import pytest

IP = "ip"
PREFIX = "cpgt-hosts"
SWITCH = Path(__file__).with_name("switch.py")
NETWORK = ("10.77.0", "fd77:")  # prefixes of the addresses, IPv4 and IPv6
DISABLED, FORWARDING = "0", "3"  # states of a bridge's port


class HostsError(Exception):
    """Hosts cannot be made on this machine."""


def ip(*arguments: str) -> str:
    return _run(IP, *arguments)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        raise HostsError(f"there is no {command[0]} here; install iproute2") from None
    except subprocess.CalledProcessError as error:
        raise HostsError(f"{' '.join(command)}: {error.stderr.strip()}") from None
    return done.stdout


class Hosts:
    """Hosts 0, 1, ... on one switch: a bridge, or with a delay the program switch.py."""

    def __init__(
        self,
        count: int,
        *,
        rate: str = "",
        delay_ms: float = 0.0,
        network: tuple[str, str] = NETWORK,
    ) -> None:
        sweep()
        self._network = network
        self._name = f"{PREFIX}-{os.getpid()}-{secrets.token_hex(3)}"
        self._names = [f"{self._name}-{host}" for host in range(count)]
        self._program: subprocess.Popen[str] | None = None
        try:
            for name in (self._name, *self._names):
                ip("netns", "add", name)
            (self._program_switch if delay_ms else self._bridge)(delay_ms / 1000)
            for host, name in enumerate(self._names):
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
                ipv6 = f"{self.address6(host)}/64"
                ip("-n", name, "address", "add", ipv6, "dev", "eth0", "nodad")
                ip("-n", name, "link", "set", "eth0", "up")
                if rate:
                    self._limit(name, "eth0", rate)  # from the host
                    self._limit(self._name, f"port{host}", rate)  # to it
        except BaseException:
            self.close()
            raise

    def _bridge(self, _delay: float) -> None:
        ip("-n", self._name, "link", "add", "switch", "type", "bridge")
        ip("-n", self._name, "link", "set", "switch", "up")
        for host, name in enumerate(self._names):
            port = f"port{host}"
            peer = ("peer", "name", "eth0", "netns", name)
            ip("-n", self._name, "link", "add", port, "type", "veth", *peer)
            ip("-n", self._name, "link", "set", port, "master", "switch", "up")

    def _program_switch(self, delay: float) -> None:
        ports = [f"port{host}" for host in range(len(self._names))]
        command = [*self._enter(self._name), sys.executable, str(SWITCH), str(delay), *ports]
        self._program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._program.stdout
        if self._program.stdout.readline() != "ready\n":
            raise HostsError("the switch cannot make TAP devices")
        for port, name in zip(ports, self._names, strict=True):
            ip("-n", self._name, "link", "set", port, "netns", name, "name", "eth0")

    @staticmethod
    def _limit(namespace: str, device: str, rate: str) -> None:
        shape = ("tbf", "rate", rate, "burst", "10kb", "latency", "400ms")
        _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *shape)

    def address(self, host: int) -> str:
        return f"{self._network[0]}.{10 + host}"

    def address6(self, host: int) -> str:
        return f"{self._network[1]}:{10 + host}"

    def on(self, host: int) -> Sequence[str]:
        """The prefix that runs a command on this host."""
        return self._enter(self._names[host])

    @staticmethod
    def _enter(namespace: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{namespace}"]

    def listening(self, host: int) -> bool:
        """Whether a process on this host listens on a TCP port."""
        return bool(_run(*self.on(host), "ss", "-Htln"))

    def cut(self, host: int) -> None:
        """Stop all traffic from and to this host at the switch. Its own link stays up."""
        self._set_port(host, DISABLED)

    def heal(self, host: int) -> None:
        self._set_port(host, FORWARDING)

    def _set_port(self, host: int, state: str) -> None:
        port = ("dev", f"port{host}")
        _run(*self._enter(self._name), "bridge", "link", "set", *port, "state", state)

    def close(self) -> None:
        if self._program:
            self._program.kill()
            self._program.communicate()
        existing = namespaces()
        for name in (*self._names, self._name):
            if name in existing:
                ip("netns", "delete", name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep() -> None:
    """Remove the namespaces of tests that were killed."""
    for name in namespaces():
        owner = name.removeprefix(f"{PREFIX}-").partition("-")[0]
        if name.startswith(f"{PREFIX}-") and not psutil.pid_exists(int(owner)):
            ip("netns", "delete", name)


def namespaces() -> set[str]:
    return {line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()}


@contextmanager
def hosts_or_skip(
    count: int, *, delay_ms: float = 0.0, network: tuple[str, str] = NETWORK
) -> Iterator[Hosts]:
    """Hosts for a test. If they cannot be made, the test is skipped; in CI it fails."""
    try:
        hosts = Hosts(count, delay_ms=delay_ms, network=network)
    except HostsError as error:
        reason = f"no network namespaces here: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with hosts:
        yield hosts
