"""`python -m flambeau` is the command `flambeau`."""

import sys

from ._cli import main

sys.exit(main())
