"""A component whose import ends the process, as a script does."""

import sys

sys.exit(0)
