"""Adapted networks with their heads as files of other programs."""
