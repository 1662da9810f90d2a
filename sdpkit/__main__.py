"""`python -m sdpkit`."""

import sys

from sdpkit.cli.main import main

sys.exit(main())
