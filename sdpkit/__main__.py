"""`python -m sdpkit`."""

import sys

from sdpkit.cli import main

sys.exit(main())
