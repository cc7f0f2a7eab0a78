"""``python -m hopper.conformance --out folder``: see ``record``."""

import sys

from hopper.conformance.record import main

sys.exit(main(sys.argv[1:]))
