# SPDX-License-Identifier: Apache-2.0
"""Sizes for random settings."""

import math


def factors(random, count, most=64):
    """`count` sizes whose product is `most` or less; most of them are small."""
    most = random.choice([1, 2, 4, 8, 8, 16, 16, 24, 32, most])
    sizes = [1] * count
    for place in random.sample(range(count), count):
        sizes[place] = random.choice([1, 1, 2, 2, 3, 4, 5, 6, 8])
        if math.prod(sizes) > most:
            sizes[place] = 1
    return sizes


def divisors(number):
    """All of them."""
    return [each for each in range(1, number + 1) if number % each == 0]
