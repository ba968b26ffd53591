"""`python -m flambeau` is the command `flambeau`."""

import sys

from ._command.main import main

sys.exit(main())
