"""``python -m tinytrain``."""

import sys

from tinytrain.cli import main

sys.exit(main())
