"""Learning that goes on: images one after another, their verdicts, corrections, and what is kept of these."""
