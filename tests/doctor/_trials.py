"""Makes trials of programs in one process and prints what came of them as JSON: a child process of the tests."""

import contextlib
import io
import json
import linecache
import os
import sys

from flambeau._command.main import main

os.chdir(sys.argv[1])
found = {}
for name, (options, text) in json.load(sys.stdin).items():
    with open("train.py", "w") as file:
        file.write(text)
    linecache.checkcache()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["doctor", *options, "train.py"])
    found[name] = status, out.getvalue(), err.getvalue(), sorted(os.listdir())
print(json.dumps(found))
