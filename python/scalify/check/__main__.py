"""`python -m scalify.check`."""

from __future__ import annotations

import sys

from scalify.check import main

if __name__ == "__main__":
    sys.exit(main())
