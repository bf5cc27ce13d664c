import sys

from golden import main

sys.exit(main(sys.argv[1:]))
