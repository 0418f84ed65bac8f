# SPDX-License-Identifier: Apache-2.0
"""A port of this machine that is free, and that no connection takes before somebody listens there."""

import random
import socket


def free_port():
    """Of none the system gives to who connects: another test's connection may get such a one a moment later."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as said:
        first, last = map(int, said.read().split())
    while True:
        port = random.choice([port for port in range(10000, 65000) if not first <= port <= last])
        with socket.socket() as s:
            try:
                s.bind(("", port))
                return port
            except OSError:
                pass


if __name__ == "__main__":
    print(free_port())
