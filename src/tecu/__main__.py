"""``python -m tecu``: the command line."""

import sys

from tecu.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
