#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ci/tensorboard on what a real writer wrote, tensors of TF2, folders, damage; its writer shares nothing with it."""
import json, pathlib, struct, subprocess, sys, tempfile, unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "program"))
from event_file import crc32c, field, masked, record, varint


def event(step, tag, value, wall=1.0):
    """An Event with one Value."""
    head = b"\x09" + struct.pack("<d", wall) + b"\x10" + varint(step & (1 << 64) - 1)
    return head + field(5, field(1, field(1, tag.encode()) + value))


def simple(bits):
    return b"\x15" + struct.pack("<I", bits)


def tensor(dtype, values, shape=b""):
    return field(8, b"\x08" + varint(dtype) + field(2, shape) + values)


def bits(x, form="f"):
    return struct.pack(">" + form, x).hex()


class TensorBoard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(data)
        return self.folder / name

    def read(self, path, code=0):
        done = subprocess.run([sys.executable, HERE / "tensorboard", str(path)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def refused(self, data, said):
        self.assertIn(said, self.read(self.write("x", data), 2)[1])

    def test_checksum_of_known_texts(self):
        """Catches: another polynomial, in the writer of this test. The vectors are those of RFC 3720, B.4."""
        self.assertEqual([crc32c(text) for text in (b"123456789", bytes(32), b"\xff" * 32)],
                         [0xE3069283, 0x8A9136AA, 0x62A8AB43])

    def test_a_file_of_a_real_writer(self):
        """Catches: whatever we and our own writer would get wrong in the same way. tensorboardX 2.6.5 wrote the file:
        train/loss is 8 / step + 0.1, train/grad_norm 1 / step."""
        lines, notes = self.read(HERE.parent / "golden/curves/tensorboardX-2.6.5.tfevents")
        self.assertEqual(lines, [{"step": s, "dtype": "f32", "train/loss_bits": bits(8 / s + 0.1),
                                  "train/grad_norm_bits": bits(1 / s)} for s in range(1, 6)])
        self.assertIn("1 values are no scalars", notes)

    def test_scalars_as_tensors(self):
        """Catches: a scalar of TF2 read in another dtype, packed values misread, a longer tensor taken for a scalar."""
        f32, f64, dim = struct.pack("<f", 0.1), struct.pack("<d", 0.1), lambda n: field(2, b"\x08" + varint(n))
        for value, dtype, wanted in (
                (tensor(1, field(4, f32)), "f32", bits(0.1)), (tensor(1, field(5, f32)), "f32", bits(0.1)),
                (tensor(1, varint(5 << 3 | 5) + f32), "f32", bits(0.1)),
                (tensor(2, field(6, f64)), "f64", bits(0.1, "d")),
                (tensor(14, field(13, varint(0xBF80))), "bf16", "bf80"),
                (tensor(19, varint(13 << 3) + varint(0x3C00), dim(1)), "f16", "3c00")):
            lines, _ = self.read(self.write("x", record(event(3, "x", value))))
            self.assertEqual(lines, [{"step": 3, "dtype": dtype, "x_bits": wanted}])
        for other in (tensor(1, field(5, f32 + f32), dim(2)), tensor(7, b""), tensor(1, b""),
                      tensor(1, field(4, f32), dim(0)), field(5, b""), tensor(14, field(13, varint(1) + varint(2)))):
            self.refused(record(event(3, "x", other)), "1 values are no scalars")

    def test_every_bit_of_a_float(self):
        """Catches: a NaN payload, a sign of zero or a negative step lost on the way."""
        patterns = (0x80000000, 0x7FC00001, 0x7F800001, 1, 0xFF800000)
        lines, _ = self.read(self.write("x", b"".join(record(event(i - 2, "loss", simple(p)))
                                                       for i, p in enumerate(patterns))))
        self.assertEqual([(line["step"], int(line["loss_bits"], 16)) for line in lines],
                         [(i - 2, p) for i, p in enumerate(patterns)])

    def test_a_folder_in_the_order_of_time(self):
        """Catches: files taken in the order of their names, a neighbour that is no event file, another run below;
        numbers of one step that fall apart, or a second one that hides the first."""
        self.write("run/a.tfevents", record(event(2, "loss", simple(9), 20)) + record(event(3, "loss", simple(3), 21)))
        self.write("run/b.tfevents", record(event(1, "loss", simple(1), 10)) + record(event(2, "loss", simple(2), 11)))
        self.write("run/notes.txt", b"no events")
        lines, _ = self.read(self.folder / "run")
        self.assertEqual([(line["step"], int(line["loss_bits"], 16)) for line in lines],
                         [(1, 1), (2, 2), (2, 9), (3, 3)])
        self.assertIn("these below it do: ", self.read(self.folder, 2)[1])

    def test_damage(self):
        """Catches: damage that is read over, a file that is still being written refused."""
        good = record(event(1, "loss", simple(1)))
        for at, said in ((len(good) + 3, f"checksum of the length of record 2 at byte {len(good)} is wrong"),
                         (20, "checksum of the data of record 1 at byte 0"), (len(good) - 1, "checksum of the data")):
            spoilt = bytearray(good + good)
            spoilt[at] ^= 1
            self.refused(spoilt, said)
        for data in (b"\xff\xff", event(1, "x", b"\x12\xff"), event(1, "x", b"\x0b")):
            self.refused(record(data), "no event of TensorBoard")
        for keep in (1, 11, 13, 40):
            lines, notes = self.read(self.write("x", good + good[:keep]))
            self.assertEqual([line["step"] for line in lines], [1], keep)
            self.assertIn("ends within a record", notes)
        self.refused(b"", "holds no scalar")
        huge = struct.pack("<Q", 1 << 40)
        self.refused(huge + masked(huge), "below 1 GiB")
        self.assertIn("No such file", self.read(self.folder / "none", 2)[1])


if __name__ == "__main__":
    unittest.main()
