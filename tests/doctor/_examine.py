"""Examines many programs in one process and prints what was found as JSON: a child process of the tests."""

import json
import os
import sys
import tempfile

from flambeau.doctor.program import examine


def main() -> None:
    found = {}
    os.chdir(tempfile.mkdtemp())
    for path in sys.argv[1:]:
        diagnosis = examine(path)
        listed = [[f.id, f.line, f.severity] for f in diagnosis.listed(hints=True)]
        found[path] = {"found": listed, "failure": diagnosis.failure}
        for name in [n for n, module in list(sys.modules.items()) if getattr(module, "__file__", None) == path]:
            del sys.modules[name]
    print(json.dumps(found))


main()
