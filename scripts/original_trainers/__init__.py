# SPDX-License-Identifier: Apache-2.0
"""The trainers that scripts/trainers runs, a file each: NAME.py has `FRAMEWORK` and `train`."""
