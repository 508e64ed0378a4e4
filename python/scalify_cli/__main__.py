"""`python -m scalify_cli` is the command `scalify`."""

import sys

from scalify_cli import main

sys.exit(main())
