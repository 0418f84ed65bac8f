#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a TensorBoard event file, from the public description of the format and nothing of ours.

usage: event_file.py FILE simple|tensor TAG STEPS [CHANGED_STEP]
The value at step s is the f32 nearest to 8/s; at CHANGED_STEP it is one ulp more.
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, payload):  # length-delimited
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def event(step, *parts):
    return record(b"\x09" + struct.pack("<d", 1.7e9 + step) + b"\x10" + varint(step) + b"".join(parts))


def value(kind, tag, bits):
    raw = struct.pack("<I", bits)
    if kind == "simple":
        return field(1, tag) + b"\x15" + raw
    # DT_FLOAT, a shape without dimensions, tensor_content; then metadata with the plugin's name.
    tensor = b"\x08\x01" + field(2, b"") + field(4, raw)
    return field(1, tag) + field(8, tensor) + field(9, field(1, field(1, b"scalars")))


def main():
    path, kind, tag, steps = sys.argv[1:5]
    changed = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    with open(path, "wb") as out:
        out.write(event(0, field(3, b"brain.Event:2")))
        for step in range(1, int(steps) + 1):
            bits = struct.unpack("<I", struct.pack("<f", 8 / step))[0] + (step == changed)
            out.write(event(step, field(5, field(1, value(kind, tag.encode(), bits)))))


if __name__ == "__main__":
    main()
