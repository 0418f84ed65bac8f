# SPDX-License-Identifier: Apache-2.0
"""Whether a mutant is the source in other words: both are compiled, and their objects compared byte by byte."""
import json, pathlib, shlex, subprocess, tempfile

import tree


def command_for(copy, path):
    for command in json.loads((copy / "build/compile_commands.json").read_text()):
        if command["file"] == str(copy / path):
            return command["directory"], shlex.split(command["command"])
    return None, None


def object_of(copy, path, text, folder):
    """The object that the file would give if it held this text."""
    directory, words = command_for(copy, path)
    source, out = folder / pathlib.Path(path).name, folder / "out.o"
    source.write_bytes(text)
    at = words.index("-o")
    words = words[:at] + words[at + 2:]
    words[words.index("-c") + 1:words.index("-c") + 2] = [str(source)]
    subprocess.run([*words, "-o", str(out)], cwd=directory, check=True, capture_output=True)
    return out.read_bytes()


def is_same(root, copy, point):
    """None: it stands in a header, whose objects are many."""
    if not point.file.endswith(".cpp"):
        return None
    source = pathlib.Path(root, point.file).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        on, off = (object_of(copy, point.file, tree.fixed(source, point, held), pathlib.Path(folder))
                   for held in ("true", "false"))
    return on == off
