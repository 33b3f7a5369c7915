"""Detectors of a change in a stream of numbers, and the numbers that an image stream gives without labels."""
