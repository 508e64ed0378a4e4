"""The ops of random programs, of all files that register some."""

from __future__ import annotations

import random_bodies  # noqa: F401 - registers its ops
import random_elementwise  # noqa: F401
import random_loops  # noqa: F401
import random_moves  # noqa: F401
import random_numbers  # noqa: F401
import random_updates  # noqa: F401
from random_table import APPLY, grow, grow_smooth

__all__ = ["APPLY", "grow", "grow_smooth"]
