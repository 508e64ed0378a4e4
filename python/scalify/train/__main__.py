"""`python -m scalify.train`."""

from __future__ import annotations

import sys

from scalify.train import main

if __name__ == "__main__":
    sys.exit(main())
