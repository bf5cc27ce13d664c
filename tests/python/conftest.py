"""What all tests of the package begin with."""

import signal

# A shell that runs a command in the background has SIGINT ignored, and so would be what the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
