"""``python -m tinytrain``."""

import sys

from tinytrain.cli.main import main

sys.exit(main())
